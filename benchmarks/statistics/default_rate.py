"""Is the rate of change ε found by default settings, whatever the unit of time?

Each data set is 60 hourly rows of a Markov objective in one to three dimensions, at points drawn at
random, with ε log-uniform from 0.003 to 0.1, lengthscale and noise as random, and outcomes in an
arbitrary unit. ``TimeVaryingGP(train_X, train_Y)`` is fitted by ``fit_gpytorch_mll`` and nothing
else is said; times are told in seconds, in hours and in years. To hold: the median of learned ε by
true ε in [0.8, 1.25], 85 % in [1/3, 3], all in [1/10, 10], and the same in every unit.

The priors of these defaults were chosen on seeds 0 to 279. The report is on others.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from botorch_tv.models import TimeVaryingGP

ROWS = 60
CHOSEN_ON = (0, 279)
UNITS = {"hours": 1.0, "seconds": 3600.0, "years": 1 / 8766}
"""How many of each are an hour."""


class DataSet(NamedTuple):
    """What a model sees, and how it was made."""

    X: Tensor
    """Points in the unit cube and their times in hours, `60 x (d + 1)`."""
    Y: Tensor
    """`60 x 1`."""
    epsilon: float
    """Per hour."""
    lengthscale: float
    noise: float
    """As a share of the objective's variance."""


def data_set(seed: int) -> DataSet:
    """One data set; its dimension is 1, 2 or 3 by turns.

    Args:
        seed: All that differs between two.
    """
    generator = torch.Generator().manual_seed(1000 + seed)
    usual: dict[str, Any] = {"generator": generator, "dtype": torch.float64}

    def between(low: float, high: float) -> float:
        return low * (high / low) ** torch.rand((), **usual).item()

    d = 1 + seed % 3
    epsilon = between(0.003, 0.1)
    lengthscale, noise = between(0.2, 0.5) * math.sqrt(d), between(0.003, 0.03)
    X = torch.rand(ROWS, d, **usual)
    hours = torch.arange(ROWS, dtype=torch.float64)
    drawn, errors = torch.randn(ROWS, **usual), torch.randn(ROWS, **usual)
    K = covariance(X, hours, epsilon, lengthscale)
    y = torch.linalg.cholesky(K + 1e-9 * torch.eye(ROWS)) @ drawn + math.sqrt(noise) * errors
    scale, offset = between(0.1, 10.0), 10 * torch.randn((), **usual).item()
    return DataSet(
        torch.cat([X, hours.unsqueeze(-1)], -1),
        (offset + scale * y).unsqueeze(-1),
        epsilon,
        lengthscale,
        noise,
    )


def covariance(
    X: Tensor, times: Tensor, epsilon: Tensor | float, lengthscale: Tensor | float
) -> Tensor:
    """Squared exponential in space, (1 - ε)^(Δt/2) in time, `n x n`."""
    apart = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(-1)
    elapsed = (times.unsqueeze(-1) - times).abs()
    retained = 1 - torch.as_tensor(epsilon, dtype=X.dtype)
    decay: Tensor = retained ** (0.5 * elapsed)
    return torch.exp(-0.5 * apart / lengthscale**2) * decay


def left_open(one: DataSet) -> float:
    """Deviation of ln ε that the data leave at best (Cramér and Rao), all else unknown."""

    def covered(logarithms: Tensor) -> Tensor:
        epsilon, scale, noise, lengthscale = logarithms.exp()
        K = covariance(one.X[:, :-1], one.X[:, -1], epsilon, lengthscale)
        observed: Tensor = scale * K + noise * torch.eye(ROWS, dtype=K.dtype)
        return observed

    truth = torch.tensor([one.epsilon, 1.0, one.noise, one.lengthscale], dtype=torch.float64).log()
    slopes: Any = torch.autograd.functional.jacobian(covered, truth)  # type: ignore[no-untyped-call]
    slopes = slopes.permute(2, 0, 1)
    solved = torch.linalg.solve(covered(truth), slopes)
    information = 0.5 * torch.einsum("aij,bji->ab", solved, solved)
    return math.sqrt(torch.linalg.inv(information)[0, 0].item())


def learned(one: DataSet, unit: str) -> tuple[float, float]:
    """ε per hour as fitted by default, and the logarithm of likelihood and priors there.

    Args:
        one: The data.
        unit: In which its times are told.
    """
    X = one.X.clone()
    X[:, -1] *= UNITS[unit]
    model = TimeVaryingGP(X, one.Y)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll)
    model.train()
    log = ROWS * mll(model(*model.train_inputs), model.train_targets)
    temporal: Any = model.covar_module.temporal
    return temporal.epsilon_per(UNITS[unit]).item(), log.item()


def judged(ratios: Sequence[float]) -> dict[str, Any]:
    """Learned by true ε, in numbers and with a verdict."""
    values = torch.tensor(ratios, dtype=torch.float64)
    median = values.quantile(0.5).item()
    near = ((values > 1 / 3) & (values < 3)).double().mean().item()
    return {
        "median": median,
        "within 3": near,
        "smallest": values.min().item(),
        "largest": values.max().item(),
        "holds": 0.8 <= median <= 1.25
        and near >= 0.85
        and bool(((values > 0.1) & (values < 10)).all()),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Fit every data set in every unit; returns the record that is written."""
    parser = command_line("statistics.default_rate", __doc__, threads=1)
    parser.add_argument("--first", type=int, default=300, help="first seed")
    parser.add_argument("--sets", type=int, default=40, help="number of data sets")
    options = parser.parse_args(arguments)
    facts = begin(options.threads, seed=options.first)
    seeds = range(options.first, options.first + options.sets)
    sets = [data_set(seed) for seed in seeds]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for unit in UNITS:
            found[unit] = [learned(one, unit) for one in sets]
            verdict = judged([rate / one.epsilon for (rate, _), one in zip(found[unit], sets)])
            print(unit, verdict)
    first = found["hours"]
    record = {
        "benchmark": "default_rate",
        **facts,
        "parameters": {
            "seeds": [seeds.start, seeds.stop - 1],
            "chosen_on_seeds": list(CHOSEN_ON),
            "rows": ROWS,
        },
        "left_open": [left_open(one) for one in sets],
        "truth": [one.epsilon for one in sets],
        "learned": {unit: [rate for rate, _ in values] for unit, values in found.items()},
        "verdict": {
            unit: judged([rate / one.epsilon for (rate, _), one in zip(values, sets)])
            for unit, values in found.items()
        },
        "against_hours": {
            unit: {
                "largest_relative_difference": max(
                    abs(rate / other - 1) for (rate, _), (other, _) in zip(values, first)
                ),
                "largest_difference_in_log": max(
                    abs(log - other) for (_, log), (_, other) in zip(values, first)
                ),
            }
            for unit, values in found.items()
        },
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
