"""Recovery of the rate of change ε, lengthscales and noise from simulated data.

Bandit data have one noisy value per round, at the point that TV-GP-UCB chose; a panel has a reading
of every sensor in every round. Both are drawn from the Markov model. ε is fitted by the likelihood
alone. The mean over seeds must lie within three standard errors of the truth, and below 1e-3 if the
objective is static.
"""

from __future__ import annotations

import math
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
"""Estimates by the name of the hyperparameter, one number per seed."""


def bandit_data(epsilon: float, seeds: int, rounds: int) -> tuple[Tensor, Tensor]:
    """Points with their times, `seeds x rounds x 3`, and observations, `seeds x rounds x 1`.

    TV-GP-UCB, given the truth, plays on a grid of the unit square.
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
    """ε by ``fit_gpytorch_mll``, the rest given, without a prior; `... x n x 3` to `...`."""
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
    return {"epsilon": [float(fitted(*run)) for run in zip(X, Y)]}


def together(X: Tensor, Y: Tensor) -> Estimates:
    """``fit_gpytorch_mll`` on all runs as one batch."""
    return {"epsilon": fitted(X, Y).tolist()}


def refitted(X: Tensor, Y: Tensor) -> Estimates:
    """``learn`` within a strategy: ε alone, without a prior."""
    refit = Refit(lengthscale=None, noise=None, epsilon=Free(prior=None))
    return {"epsilon": _learned(refit, LENGTHSCALE, NOISE, X, Y)["epsilon"]}


def refitted_all(X: Tensor, Y: Tensor) -> Estimates:
    """``learn`` within a strategy: all of them, from distant starts, under default priors."""
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


def panel_rate(seed: int, epsilon: float, rounds: int) -> dict[str, float]:
    """ε of a panel by its Kronecker likelihood, the rest given."""
    panel = make_panel(rounds, SENSORS, epsilon=epsilon, cycle=0.0, gaps=0.0, seed=seed)
    places = panel.coordinates
    assert places is not None
    apart = ((places[:, None] - places[None]) ** 2).sum(-1)
    covariance = np.exp(-apart / (2 * PANEL_LENGTHSCALE**2))
    return {"epsilon": fit_epsilon(panel.values, covariance, PANEL_NOISE).epsilon}


def judged(values: Sequence[float], truth: float) -> dict[str, Any]:
    """Mean, spread and verdict on the estimates of a number."""
    numbers = np.asarray(values)
    mean = float(numbers.mean())
    error = float(numbers.std(ddof=1) / math.sqrt(len(numbers)))
    near = abs(mean - truth) <= CLEAR * error if truth else float(numbers.max()) < OFFSET
    return {
        "truth": truth,
        "mean": mean,
        "standard_error": error,
        "largest": float(numbers.max()),
        "holds": bool(near),
    }


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
    """Run the benchmark and return its record."""
    parser = command_line("statistics.recovery", __doc__, seeds=20, threads=cores())
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.0, 0.01, 0.1])
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error(f"--seeds is {options.seeds}, but a standard error takes at least 2")
    facts = begin(options.threads, seed=0)
    found: dict[str, list[dict[str, Any]]] = {label: [] for label in (*BANDIT, *PANEL)}
    warnings.simplefilter("ignore")  # data are not standardised on purpose
    for epsilon in options.epsilon:
        X, Y = bandit_data(epsilon, options.seeds, options.rounds)
        estimates = {label: estimate(X, Y) for label, estimate in BANDIT.items()}
        for label, of_panel in PANEL.items():
            rows = [of_panel(seed, epsilon, options.rounds) for seed in range(options.seeds)]
            estimates[label] = {name: [row[name] for row in rows] for name in rows[0]}
        truths = {"epsilon": epsilon, "lengthscale": LENGTHSCALE, "noise": NOISE}
        for label, each in estimates.items():
            for name, values in each.items():
                entry = {"epsilon": epsilon, "hyperparameter": name, **judged(values, truths[name])}
                found[label].append(entry)
                print(label, entry, flush=True)
    sizes = {"seeds": options.seeds, "rounds": options.rounds}
    parameters = {**sizes, "arms": POINTS**2, "sensors": SENSORS}
    record = {"benchmark": "recovery", **facts, "parameters": parameters, "estimates": found}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
