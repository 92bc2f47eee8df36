"""Are the rate of change ε, lengthscales and noise found again in simulated data?

Bandit data are what a bandit really sees: one noisy value per round, at the point that TV-GP-UCB
chose. A panel is read at every sensor in every round. Both are drawn from the Markov model, and ε
is fitted by the likelihood alone, as is the statement to be tested: the mean over seeds within
three standard errors of the truth, and below 1e-3 where the world stands still.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, cores, write
from botorch_tv.forgetting import Markov
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.panels import fit_epsilon, make_panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, tv_gp_ucb

LENGTHSCALE, NOISE = 0.2, 0.02
PANEL_LENGTHSCALE, PANEL_NOISE = 0.3, 0.05
POINTS = 50
SENSORS = 20
START = 0.01
CLEAR = 3.0
OFFSET = 1e-3

Estimates = dict[str, list[float]]
"""What was found, by the name of the hyperparameter, one number per seed."""


def bandit_data(epsilon: float, seeds: int, rounds: int) -> tuple[Tensor, Tensor]:
    """What TV-GP-UCB, told the truth, sees on a grid of the unit square.

    Args:
        epsilon: Rate of change.
        seeds: Number of runs.
        rounds: Length of a run.

    Returns:
        Points with their times, `seeds x rounds x 3`, and observations, `seeds x rounds x 1`.
    """
    grid, kernel = Grid.regular(points=POINTS, dim=2), unit_kernel("se", LENGTHSCALE)
    world = MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=NOISE)
    where: dict[str, Any] = {"dtype": torch.float64, "device": torch.device("cpu")}
    values, errors = (Stream(0, purpose, 0, seeds, **where) for purpose in ("world", "noise"))
    strategy = tv_gp_ucb(kernel=kernel, noise=NOISE, epsilon=epsilon)
    state = strategy.init(grid, batch_shape=(seeds,))
    X, Y = [], []
    for now, f in zip(range(rounds), world.rounds(values)):
        chosen = strategy.ask(state)
        arm = grid.index_of(chosen.X).unsqueeze(-1)
        y = f.gather(-1, arm) + math.sqrt(NOISE) * errors.normal(1)
        state, _ = strategy.tell(state, chosen, y.squeeze(-1))
        X.append(torch.cat([chosen.X, torch.full((seeds, 1), float(now), dtype=f.dtype)], -1))
        Y.append(y)
    return torch.stack(X, 1), torch.stack(Y, 1)


def fitted(X: Tensor, Y: Tensor) -> Tensor:
    """ε by ``fit_gpytorch_mll``, the rest known, without a prior; `... x n x 3` to `...`."""
    space = unit_kernel("se", LENGTHSCALE).requires_grad_(False)
    drift = MarkovKernel(START, batch_shape=X.shape[:-2], epsilon_prior=None)
    model = TimeVaryingGP(
        X,
        Y,
        torch.full_like(Y, NOISE),
        covar_module=SpatioTemporalKernel(space, drift).double(),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    epsilon: Tensor = model.covar_module.temporal.epsilon.detach()
    return epsilon.reshape(X.shape[:-2])


def alone(X: Tensor, Y: Tensor) -> Estimates:
    """``fit_gpytorch_mll`` on each run alone."""
    return {"epsilon": [float(fitted(*one)) for one in zip(X, Y)]}


def together(X: Tensor, Y: Tensor) -> Estimates:
    """``fit_gpytorch_mll`` on all runs as one batch."""
    return {"epsilon": fitted(X, Y).tolist()}


def refitted(X: Tensor, Y: Tensor) -> Estimates:
    """``learn`` within a strategy: ε alone, without a prior."""
    refit = Refit(lengthscale=None, noise=None, epsilon=Free(prior=None))
    return {"epsilon": _learned(refit, LENGTHSCALE, NOISE, X, Y)["epsilon"]}


def refitted_all(X: Tensor, Y: Tensor) -> Estimates:
    """``learn`` within a strategy: everything, from afar, under the default priors."""
    return _learned(Refit(), 2.5 * LENGTHSCALE, 5 * NOISE, X, Y)


def _learned(refit: Refit, lengthscale: float, noise: float, X: Tensor, Y: Tensor) -> Estimates:
    y = Y.squeeze(-1)
    kernel = unit_kernel("se", lengthscale)
    places, times, live = X[..., :-1], X[..., -1], torch.ones_like(y, dtype=torch.bool)
    found = learn(refit, kernel, Markov(START), noise, places, times, y, live)
    return {
        "epsilon": found.decay.value("epsilon").tolist(),
        "lengthscale": found.kernel.lengthscale.flatten().tolist(),
        "noise": found.noise.tolist(),
    }


def panel_data(seed: int, epsilon: float, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Readings, `rounds x sensors`, and places of the sensors, `sensors x 2`."""
    panel = make_panel(rounds, SENSORS, epsilon=epsilon, cycle=0.0, gaps=0.0, seed=seed)
    assert panel.coordinates is not None
    return panel.values, panel.coordinates


def panel_rate(seed: int, epsilon: float, rounds: int) -> dict[str, float]:
    """ε of one panel by its Kronecker likelihood, the rest known."""
    values, places = panel_data(seed, epsilon, rounds)
    apart = ((places[:, None] - places[None]) ** 2).sum(-1)
    covariance = np.exp(-apart / (2 * PANEL_LENGTHSCALE**2))
    return {"epsilon": fit_epsilon(values, covariance, PANEL_NOISE).epsilon}


def judged(values: Sequence[float], truth: float) -> dict[str, Any]:
    """Mean, spread and verdict on estimates of one number."""
    numbers = np.asarray(values)
    mean = float(numbers.mean())
    error = float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
    away = abs(mean - truth) <= CLEAR * error if truth else float(numbers.max()) < OFFSET
    return {
        "truth": truth,
        "mean": mean,
        "standard_error": error,
        "largest": float(numbers.max()),
        "holds": bool(away),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("statistics.recovery", __doc__, seeds=20, threads=cores())
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.0, 0.01, 0.1])
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}, but a standard error takes at least 2")
    return options


BANDIT: dict[str, Callable[[Tensor, Tensor], Estimates]] = {
    "bandit, fit_gpytorch_mll, one by one": alone,
    "bandit, fit_gpytorch_mll, one batch": together,
    "bandit, learn": refitted,
    "bandit, learn, all hyperparameters": refitted_all,
}
PANEL: dict[str, Callable[[int, float, int], dict[str, float]]] = {
    "panel, fit_epsilon": panel_rate,
}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Simulate, fit and compare; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=0)
    print(f"\n{'':46}{'truth':>8}{'mean':>9}{'± s.e.':>9}{'largest':>9}")
    found: dict[str, list[dict[str, Any]]] = {}

    def report(label: str, epsilon: float, estimates: Estimates, seconds: float) -> None:
        truths = {"epsilon": epsilon, "lengthscale": LENGTHSCALE, "noise": NOISE}
        for name, values in estimates.items():
            one = judged(values, truths[name])
            entry = {"epsilon": epsilon, "hyperparameter": name, **one, "seconds": seconds}
            found.setdefault(label, []).append(entry)
            print(
                f"{label if name == 'epsilon' else '':46}{one['truth']:8.3g}{one['mean']:9.5f}"
                f"{one['standard_error']:9.5f}{one['largest']:9.5f} {name}"
                + ("" if one["holds"] else "   outside")
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that are not standardised, on purpose
        for epsilon in options.epsilon:
            X, Y = bandit_data(epsilon, options.seeds, options.rounds)
            for label, estimate in BANDIT.items():
                start = time.perf_counter()
                estimates = estimate(X, Y)
                report(label, epsilon, estimates, time.perf_counter() - start)
            for label, one in PANEL.items():
                start = time.perf_counter()
                rows = [one(seed, epsilon, options.rounds) for seed in range(options.seeds)]
                estimates = {name: [row[name] for row in rows] for name in rows[0]}
                report(label, epsilon, estimates, time.perf_counter() - start)
    record = {
        "benchmark": "recovery",
        **facts,
        "parameters": {
            "seeds": options.seeds,
            "rounds": options.rounds,
            "arms": POINTS**2,
            "sensors": SENSORS,
        },
        "estimates": found,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
