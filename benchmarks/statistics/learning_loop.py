"""What it costs a loop not to know how its world drifts.

    python -m benchmarks.statistics.learning_loop [--seeds 20] [--horizon 100] [--workers 2]
        [--worlds markov abrupt] [--skip-rival] [--out FILE]

Loops on [0, 1]² meet functions drawn from a squared exponential kernel (lengthscale 0.2, noise
0.02), in two worlds: one drifts by the Markov model at ε = 0.03, one rests and is drawn afresh at
round 50. Three contenders face the same functions and the same noise:

- *told*: TV-GP-UCB with an event trigger (δ = 0.01), told the true kernel, noise and ε, which is 0
  on the abrupt world;
- *learning*: the same loop that starts from wrong values and learns ε, lengthscale and noise as it
  goes; the trigger is for what no rate of change describes;
- *rival*: the loop people write with BoTorch, a ``SingleTaskGP`` on (x, t) with a Matérn-1/2
  factor in time, fitted anew every round, and ``optimize_acqf`` at the present time.

All play upper confidence bounds of the same width. Regret is paired over seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from benchmarks.statistics.errors import standard_error
from botorch_tv.acquisition.widths import Logarithmic
from botorch_tv.forgetting import EventTrigger
from botorch_tv.learning import Refit
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy, Strategy, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction

NOISE = 0.02
LENGTHSCALE = 0.2
EPSILON = 0.03
DELTA = 0.01
WORLDS = ("markov", "abrupt")
WIDTH = Logarithmic(0.8, 4.0)


def world(name: str, seeds: int, horizon: int) -> MarkovFunction:
    """A batch of functions, one per seed.

    Args:
        name: One of ``WORLDS``.
        seeds: How many.
        horizon: The last round.
    """
    drifts = name == "markov"
    return MarkovFunction(
        unit_kernel("se", LENGTHSCALE),
        epsilon=EPSILON if drifts else 0.0,
        changes=() if drifts else (horizon // 2,),
        horizon=horizon,
        batch_shape=(seeds,),
        seed=0,
    )


def noise_of(seeds: int, horizon: int) -> Tensor:
    """Observation noise, `horizon x seeds`."""
    generator = torch.Generator().manual_seed(1)
    noise: Tensor = torch.randn(horizon, seeds, dtype=torch.float64, generator=generator)
    noise *= NOISE**0.5
    return noise


def told(name: str) -> Strategy:
    """Who knows kernel, noise and ε."""
    return _loop(LENGTHSCALE, NOISE, EPSILON if name == "markov" else 0.0)


def learning() -> Strategy:
    """Who learns them, from wrong values."""
    return dataclasses.replace(_loop(0.5, 0.1, 0.01), learning=Refit(every=5))


def _loop(lengthscale: float, noise: float, epsilon: float) -> GPStrategy:
    forgetting = tv_gp_ucb(
        kernel=unit_kernel("se", lengthscale), noise=noise, epsilon=epsilon, width=WIDTH
    )
    return dataclasses.replace(forgetting, retention=EventTrigger(DELTA))


def play(strategy: Strategy, problem: MarkovFunction, horizon: int) -> tuple[Tensor, float]:
    """Instantaneous regret, `seeds x horizon`, and seconds per round, of loops side by side."""
    seeds = problem.batch_shape[0]
    state = strategy.init(Box(problem.spatial_bounds), batch_shape=(seeds,))
    disturbance, regret, seconds = noise_of(seeds, horizon), [], 0.0
    for round_ in range(horizon):
        start = time.perf_counter()
        suggestion = strategy.ask(state)
        seconds += time.perf_counter() - start
        X = _timed(suggestion.X, round_ + 1)
        regret.append(problem.regret(X.unsqueeze(-2)).squeeze(-1))
        y = problem.evaluate_true(X.unsqueeze(-2)).squeeze(-1) + disturbance[round_]
        start = time.perf_counter()
        state, _ = strategy.tell(state, suggestion, y)
        seconds += time.perf_counter() - start
    return torch.stack(regret, -1), seconds / horizon


def play_rival(seed: int, *, name: str, seeds: int, horizon: int) -> tuple[list[float], float]:
    """Instantaneous regret of one BoTorch loop, and seconds per round.

    Args:
        seed: Which function of the batch.
        name: One of ``WORLDS``.
        seeds: Of the batch.
        horizon: Rounds.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    warnings.filterwarnings("ignore")
    problem, disturbance = world(name, seeds, horizon), noise_of(seeds, horizon)[:, seed]
    X = torch.empty(0, 3, dtype=torch.float64)
    Y = torch.empty(0, 1, dtype=torch.float64)
    regret, seconds = [], 0.0
    for round_ in range(horizon):
        now, start = (round_ + 1) / horizon, time.perf_counter()
        if len(X) < 2:
            point = torch.rand(2, dtype=torch.float64) if len(X) else torch.full((2,), 0.5).double()
        else:
            point = rival_choice(X, Y, now, round_ + 1)
        seconds += time.perf_counter() - start
        at = _timed(point, round_ + 1)
        everywhere = at.expand(seeds, 1, 3)
        regret.append(float(problem.regret(everywhere)[seed, 0]))
        y = problem.evaluate_true(everywhere)[seed, 0] + disturbance[round_]
        X = torch.cat([X, torch.cat([point, point.new_tensor([now])]).unsqueeze(0)])
        Y = torch.cat([Y, y.view(1, 1)])
    return regret, seconds / horizon


def rival_choice(
    X: Tensor, Y: Tensor, now: float, round_: int, arms: Tensor | None = None
) -> Tensor:
    """The next point of a loop with BoTorch, `d`.

    Args:
        X: Points of the unit cube and their times, `n x (d + 1)`.
        Y: Measured there, `n x 1`.
        now: Time of the next.
        round_: Its number, from 1 on, for the width.
        arms: Points that may be chosen, `M x d`; all of the cube unless given.
    """
    dim = X.shape[-1] - 1
    in_space = get_covar_module_with_dim_scaled_prior(
        ard_num_dims=dim, active_dims=list(range(dim))
    )
    in_time = MaternKernel(
        nu=0.5, active_dims=[dim], lengthscale_prior=LogNormalPrior(2**0.5, 3**0.5)
    )
    model = SingleTaskGP(X, Y, covar_module=in_space * in_time)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    beta = WIDTH.c1 * np.log(WIDTH.c2 * round_)
    score = UpperConfidenceBound(model, beta=float(beta))
    if arms is not None:
        timed = torch.cat([arms, arms.new_full((len(arms), 1), now)], -1)
        with torch.no_grad():
            return arms[score(timed.unsqueeze(-2)).argmax()]
    found, _ = optimize_acqf(
        score,
        bounds=torch.tensor([[0.0], [1.0]]).double().expand(-1, dim + 1),
        q=1,
        num_restarts=5,
        raw_samples=128,
        fixed_features={dim: now},
    )
    chosen: Tensor = found[0, :dim].detach()
    return chosen


def _timed(X: Tensor, round_: int) -> Tensor:
    return torch.cat([X, X.new_full((*X.shape[:-1], 1), float(round_))], -1)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All contenders on one world.

    Args:
        name: One of ``WORLDS``.
        options: The command line.
    """
    problem = world(name, options.seeds, options.horizon)
    found: dict[str, Tensor] = {}
    record: dict[str, Any] = {"world": name}
    for label, strategy in (("told", told(name)), ("learning", learning())):
        found[label], record[f"{label} seconds per round, all seeds"] = play(
            strategy, problem, options.horizon
        )
    alone = world(name, 1, options.horizon)
    _, record["learning seconds per round, one loop"] = play(learning(), alone, options.horizon)
    if not options.skip_rival:
        game = partial(play_rival, name=name, seeds=options.seeds, horizon=options.horizon)
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            runs = list(pool.map(game, range(options.seeds)))
        found["rival"] = torch.tensor([regret for regret, _ in runs])
        record["rival seconds per round, one loop"] = float(np.mean([each for _, each in runs]))
    totals = {label: one.sum(-1).numpy() for label, one in found.items()}
    record["total regret"] = {label: float(one.mean()) for label, one in totals.items()}
    record["total regret of every seed"] = {
        label: [round(float(total), 4) for total in one] for label, one in totals.items()
    }
    record["share above told"] = {
        label: float(one.mean() / totals["told"].mean() - 1) for label, one in totals.items()
    }
    for label in totals:
        if label != "learning":
            difference = totals[label] - totals["learning"]
            record[f"{label} less learning"] = {
                "mean": float(difference.mean()),
                "standard error": standard_error(difference),
            }
    return record


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line("statistics.learning_loop", __doc__, seeds=20, horizon=100, worlds=WORLDS)
    parser.add_argument("--workers", type=int, default=2, help="processes of the rival")
    parser.add_argument("--skip-rival", action="store_true", help="leave the BoTorch loop out")
    options = parser.parse_args(arguments)
    facts = begin(None, seed=0)
    worlds = []
    for name in options.worlds:
        found = measure(name, options)
        worlds.append(found)
        for key, value in found.items():
            print(f"{key}: {value}")
    record = {"environment": facts, "worlds": worlds}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
