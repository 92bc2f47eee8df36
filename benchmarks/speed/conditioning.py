"""One more observation and a look at 2,500 points: the drop-in model against BoTorch's own.

    python -m benchmarks.speed.conditioning [--observations 1000] [--candidates 2500]
        [--repeats 7] [--threads N] [--seed 0] [--out FILE]

Both models have the same kernel (squared exponential in two columns, Markov decay in the third),
noise and data, and have just predicted at the candidates at the present of the last round. Timed is
what a loop over them does next: ``condition_on_observations`` with one observation, and BoTorch's
``UpperConfidenceBound`` at the candidates, one unit of time later, as a batch of single points.
Once the candidates are those of the last round, as on a grid, which our model makes use of, and
once they are others. Contenders take turns, and each counts with the fastest of ``--repeats``
passes; their values have to agree to 1e-8 first.

Age noise has no like in BoTorch: at a ``now`` that stands still it costs nothing more, and one that
moves with every observation shows what the ages of all the others cost.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from botorch_tv.forgetting import ExponentialWeights
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP

BOTORCH = "SingleTaskGP"
OURS = "TimeVaryingGP"
NOISE = 0.02
AGREEMENT = 1e-8
"""Largest difference between values of the two that still is rounding."""


class Round(NamedTuple):
    """What a loop is about to do.

    Attributes:
        X: Inputs so far with time last, `n x 3`.
        Y: Observations, `n x 1`.
        x: Where the last observation was made, `1 x 3`.
        y: That observation, `1 x 1`.
        before: Candidates as looked at before it, `M x 1 x 3`.
        after: The same candidates, one unit of time later.
    """

    X: Tensor
    Y: Tensor
    x: Tensor
    y: Tensor
    before: Tensor
    after: Tensor


def round_of(n: int, candidates: int, seed: int) -> Round:
    """Random inputs at whole numbers of time, and a wave that moves."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(n + 1, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(n + 1)
    Y = torch.sin(6 * X[:, :1]) + torch.cos(4 * X[:, 1:2] + 0.02 * X[:, 2:])
    before = torch.rand(candidates, 1, 3, dtype=torch.float64, generator=generator)
    before[..., 2] = n
    after = before.clone()
    after[..., 2] = n + 1
    return Round(X[:n], Y[:n], X[n:], Y[n:], before, after)


def kernel() -> SpatioTemporalKernel:
    """Squared exponential with lengthscale 0.2 in space, Markov with ε = 0.03 in time."""
    spatial = RBFKernel().double()
    spatial.lengthscale = torch.tensor(0.2, dtype=torch.float64)
    temporal = MarkovKernel(0.03).double()
    temporal.epsilon = 0.03
    return SpatioTemporalKernel(spatial, temporal)


def contenders(data: Round) -> dict[str, SingleTaskGP]:
    """The models on the same data, with the same parameters, by name; they have predicted."""
    now = float(data.after[0, 0, 2])
    weights = ExponentialWeights(0.99)
    models: dict[str, SingleTaskGP] = {
        BOTORCH: SingleTaskGP(data.X, data.Y, covar_module=kernel(), outcome_transform=None),
        OURS: TimeVaryingGP(data.X, data.Y, covar_module=kernel(), outcome_transform=None),
    }
    for name, present in ((f"{OURS}, aged, now set", now), (f"{OURS}, aged, now moves", None)):
        models[name] = TimeVaryingGP(
            data.X,
            data.Y,
            covar_module=kernel(),
            outcome_transform=None,
            forgetting=weights,
            learn_forgetting=False,
            now=present,
        )
    for model in models.values():
        model.likelihood.noise = torch.tensor(NOISE, dtype=torch.float64)
        model.requires_grad_(False)
        with torch.no_grad():
            model.posterior(data.before)
    return models


def step(model: SingleTaskGP, data: Round, candidates: Tensor) -> Tensor:
    """One observation more, and the upper confidence bounds then.

    Args:
        model: A model that has predicted; it stays as it is.
        data: What is observed.
        candidates: `M x 1 x 3`.

    Returns:
        Values, `M`.
    """
    with torch.no_grad():
        grown = model.condition_on_observations(data.x, data.y)
        values: Tensor = UpperConfidenceBound(grown, beta=4.0)(candidates)
    return values


def passes(
    models: dict[str, SingleTaskGP], data: Round, candidates: Tensor, repeats: int
) -> dict[str, list[float]]:
    """Milliseconds of each pass, the models taking turns; one pass before does not count."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for number in range(repeats + 1):
        for name, model in models.items():
            begin = time.perf_counter()
            step(model, data, candidates)
            if number:
                found[name].append(round(1e3 * (time.perf_counter() - begin), 3))
    return found


def difference(models: dict[str, SingleTaskGP], data: Round, candidates: Tensor) -> float:
    """Largest difference between the values of the two.

    Raises:
        AssertionError: If it is more than rounding.
    """
    ours, theirs = (step(models[name], data, candidates) for name in (OURS, BOTORCH))
    gap = float((ours - theirs).abs().max())
    if gap > AGREEMENT:
        raise AssertionError(
            f"The two differ by {gap:.1e}; they are not computing the same thing, so their times "
            "cannot be compared."
        )
    return gap


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the models, print the ratios and write a record."""
    options = _options(arguments)
    facts = begin(options.threads or torch.get_num_threads(), seed=options.seed)
    data = round_of(options.observations, options.candidates, options.seed)
    others = round_of(options.observations, options.candidates, options.seed + 1).after
    record = {**facts, "observations": options.observations, "candidates": options.candidates}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BoTorch on times beyond the unit cube
        models = contenders(data)
        for what, candidates in (("same_candidates", data.after), ("new_candidates", others)):
            gap = difference(models, data, candidates)
            taken = passes(models, data, candidates, options.repeats)
            best = {name: min(each) for name, each in taken.items()}
            ratio = best[BOTORCH] / best[OURS]
            print(f"{what.replace('_', ' ')}:")
            for name, each in best.items():
                print(f"{each:9.1f} ms  {name}")
            print(f"{ratio:9.1f} times as fast as {BOTORCH}; largest difference {gap:.1e}")
            record[what] = {
                "ratio": round(ratio, 2),
                "ratio_of_medians": round(median(taken[BOTORCH]) / median(taken[OURS]), 2),
                "largest_difference": gap,
                "milliseconds": best,
                "milliseconds_of_each_pass": taken,
            }
    write(record, options.out)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("speed.conditioning", __doc__, repeats=7, seed=0)
    parser.add_argument("--observations", type=int, default=1_000)
    parser.add_argument("--candidates", type=int, default=2_500)
    parser.add_argument("--threads", type=int, default=None)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
