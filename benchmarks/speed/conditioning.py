"""One more observation and a look at 2,500 points: the drop-in model against BoTorch's own.

    python -m benchmarks.speed.conditioning [--observations 1000] [--candidates 2500]
        [--repeats 7] [--threads N] [--seed 0] [--out FILE]

Both models have the same kernel (squared exponential in two columns, Markov decay in the third),
noise and data, and caches as they are in a loop that has just predicted. Timed is what such a loop
does next: ``condition_on_observations`` with one observation, and ``UpperConfidenceBound`` at the
candidates, as a batch of single points like ``optimize_acqf_discrete`` and raw samples have them.
Contenders take turns, and each counts with the fastest of ``--repeats`` passes; their values have to
agree to 1e-8 first. With age noise on top, at a ``now`` that stands still, is a third contender
that BoTorch has no like of; and one whose ``now`` moves with every observation shows what the ages
of all the others then cost.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from torch import Tensor

from benchmarks.speed.common import RESULTS, environment, headline, write
from botorch_tv.forgetting import ExponentialWeights
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP

BOTORCH = "SingleTaskGP"
OURS = "TimeVaryingGP"
AGED = "TimeVaryingGP, age noise at a set now"
MOVING = "TimeVaryingGP, age noise, now moves"
NOISE = 0.02
AGREEMENT = 1e-8
"""Largest difference between values of the two that still is rounding."""


def kernel() -> SpatioTemporalKernel:
    """Squared exponential with lengthscale 0.2 in space, Markov with ε = 0.03 in time."""
    spatial = RBFKernel().double()
    spatial.lengthscale = torch.tensor(0.2, dtype=torch.float64)
    temporal = MarkovKernel(0.03).double()
    temporal.epsilon = 0.03
    return SpatioTemporalKernel(spatial, temporal)


def contenders(X: Tensor, Y: Tensor) -> dict[str, SingleTaskGP]:
    """The models on the same data, parameters and transforms, by name.

    Args:
        X: Inputs with time last, `n x 3`.
        Y: Observations, `n x 1`.
    """
    now = float(X[-1, -1]) + 1.0
    plain = {"covar_module": kernel(), "outcome_transform": None}
    weights = {"forgetting": ExponentialWeights(0.99), "learn_forgetting": False}
    models = {
        BOTORCH: SingleTaskGP(X, Y, **plain),
        OURS: TimeVaryingGP(X, Y, **plain, now=now),
        AGED: TimeVaryingGP(X, Y, **plain, **weights, now=now),
        MOVING: TimeVaryingGP(X, Y, **plain, **weights),
    }
    for model in models.values():
        model.likelihood.noise = torch.tensor(NOISE, dtype=torch.float64)
        model.requires_grad_(False)
    return models


def step(model: SingleTaskGP, x: Tensor, y: Tensor, candidates: Tensor) -> Tensor:
    """One observation more, and the upper confidence bounds then.

    Args:
        model: A model whose caches are full; it stays as it is.
        x: Where it was made, `1 x 3`.
        y: The observation, `1 x 1`.
        candidates: `M x 1 x 3`.

    Returns:
        Values, `M`.
    """
    with torch.no_grad():
        grown = model.condition_on_observations(x, y)
        values: Tensor = UpperConfidenceBound(grown, beta=4.0)(candidates)
    return values


def seconds_each(work: dict[str, Callable[[], Tensor]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each pass, the contenders taking turns; one pass before does not count."""
    found: dict[str, list[float]] = {name: [] for name in work}
    for number in range(repeats + 1):
        for name, run in work.items():
            begin = time.perf_counter()
            run()
            if number:
                found[name].append(time.perf_counter() - begin)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Time the models, print the ratio and write a record."""
    options = _options(arguments)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    facts = environment(seed=options.seed)
    print(headline(facts))
    generator = torch.Generator().manual_seed(options.seed)
    n = options.observations
    X = torch.rand(n + 1, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(n + 1)
    Y = torch.sin(6 * X[:, :1]) + torch.cos(4 * X[:, 1:2] + 0.02 * X[:, 2:])
    candidates = torch.rand(options.candidates, 1, 3, dtype=torch.float64, generator=generator)
    candidates[..., 2] = n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # BoTorch on times beyond the unit cube
        models = contenders(X[:n], Y[:n])

        def of(model: SingleTaskGP) -> Callable[[], Tensor]:
            model.posterior(candidates[:2, 0])  # fills the caches
            return lambda: step(model, X[n:], Y[n:], candidates)

        work = {name: of(model) for name, model in models.items()}
        gap = float((work[BOTORCH]() - work[OURS]()).abs().max())
        if gap > AGREEMENT:
            raise AssertionError(
                f"The two differ by {gap:.1e}; they are not computing the same thing, so their "
                "times cannot be compared."
            )
        passes = seconds_each(work, options.repeats)
    milliseconds = {name: 1e3 * min(each) for name, each in passes.items()}
    ratio = milliseconds[BOTORCH] / milliseconds[OURS]
    for name, each in milliseconds.items():
        print(f"{each:9.1f} ms  {name}")
    print(f"{OURS} is {ratio:.1f} times as fast as {BOTORCH}; largest difference {gap:.1e}")
    record = {
        **facts,
        "observations": n,
        "candidates": options.candidates,
        "repeats": options.repeats,
        "largest_difference": gap,
        "milliseconds": milliseconds,
        "milliseconds_of_each_pass": {
            name: [round(1e3 * one, 3) for one in each] for name, each in passes.items()
        },
        "ratio": ratio,
        "ratio_of_medians": _median(passes[BOTORCH]) / _median(passes[OURS]),
    }
    write(record, options.out)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--observations", type=int, default=1_000)
    parser.add_argument("--candidates", type=int, default=2_500)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "speed_conditioning.json")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
