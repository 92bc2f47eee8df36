"""Many loops on a box against as many loops written with BoTorch.

    python -m benchmarks.speed.boxes [--loops 64] [--rounds 60] [--rivals 16] [--threads 2]
        [--device cpu] [--out FILE]

Every loop maximises Hartmann's function in six dimensions while its optimum moves along an orbit;
each starts at another time of the orbit and so meets another function. TV-GP-UCB with a Matérn-5/2
kernel plays all loops side by side. The rival plays them one after another as people write them: a
``SingleTaskGP`` on (x, t) whose kernel is the same in space and a Matérn-1/2 factor in time (which
is the Markov model), the same hyperparameters, ``UpperConfidenceBound`` with the same beta and
``optimize_acqf`` at the present time with ``num_restarts=10, raw_samples=512``. Both compute the
same posterior, so what differs is the search and what it costs.

1. *time*: seconds of ``ask`` and ``tell`` for all loops, against the rival's seconds per loop times
   the number of loops, or half of that for a process per core.
2. *regret*: of the loops that the rival played, paired.
3. *search*: on data of ours, the best acquisition value we find less the best that the rival finds.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from gpytorch.means import ZeroMean
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, cores, write
from botorch_tv.acquisition import Logarithmic
from botorch_tv.strategies import Box, State, Strategy, tv_gp_ucb
from botorch_tv.test_functions import DriftingHartmann, Orbit

DIM = 6
EPSILON, NOISE, LENGTHSCALE, VARIANCE = 0.02, 1e-3, 0.5, 0.5
APART = 70.0  # rounds between the starts of two loops on the orbit
CHECKED = (10, 25, 40, 59)  # rounds whose searches are compared
RESTARTS, RAW_SAMPLES = 10, 512
WIDTH = Logarithmic(0.8, 4.0)


def space(active: bool = False) -> Kernel:
    """The spatial kernel, for six columns or for the first six of seven."""
    base = MaternKernel(nu=2.5, active_dims=list(range(DIM)) if active else None).double()
    base.lengthscale = torch.tensor(LENGTHSCALE, dtype=torch.float64)
    scaled = ScaleKernel(base).double()
    scaled.outputscale = torch.tensor(VARIANCE, dtype=torch.float64)
    return scaled


def strategy() -> Strategy:
    """The contender of this library."""
    return tv_gp_ucb(kernel=space(), noise=NOISE, epsilon=EPSILON, width=WIDTH)


class World:
    """Hartmann's function on its orbit, and noise, for a number of loops."""

    def __init__(self, loops: int, rounds: int, device: torch.device) -> None:
        horizon = rounds + APART * loops
        self.problem = DriftingHartmann(
            dim=DIM, negate=True, horizon=horizon, motion=Orbit(period=600.0, reach=0.4)
        ).to(device)
        self.start = APART * torch.arange(loops, dtype=torch.float64, device=device)
        generator = torch.Generator().manual_seed(1)
        noise = torch.randn(rounds, loops, dtype=torch.float64, generator=generator)
        self.noise = NOISE**0.5 * noise.to(device)

    def measure(self, X: Tensor, loops: slice, round_: int) -> tuple[Tensor, Tensor]:
        """Observations and regret of some loops at their points, `loops x 6`."""
        at = (self.start[loops] + round_ + 1).unsqueeze(-1)
        points = torch.cat([X, at], -1)
        truth = self.problem(points, noise=False)
        return truth + self.noise[round_, loops], self.problem.regret(points)


def play(world: World, rounds: int, device: torch.device) -> tuple[Tensor, float, list[State]]:
    """Regret of all loops, `loops x rounds`, seconds of the strategy, and some of its states."""
    contender, loops = strategy(), len(world.start)
    box = Box(torch.tensor([[0.0] * DIM, [1.0] * DIM], dtype=torch.float64, device=device))
    state = contender.init(box, batch_shape=(loops,))
    regrets, retained, seconds = [], [], 0.0
    for round_ in range(rounds):
        if round_ in CHECKED:
            retained.append(state)
        begin = time.perf_counter()
        suggestion = contender.ask(state)
        _wait(device)
        seconds += time.perf_counter() - begin
        y, regret = world.measure(suggestion.X, slice(None), round_)
        regrets.append(regret)
        begin = time.perf_counter()
        state, _ = contender.tell(state, suggestion, y)
        _wait(device)
        seconds += time.perf_counter() - begin
    return torch.stack(regrets, -1), seconds, retained


def rival_model(X: Tensor, y: Tensor) -> SingleTaskGP:
    """The posterior that the rival computes, from points with their times, `n x 7`."""
    in_time = MaternKernel(nu=0.5, active_dims=[DIM]).double()
    in_time.lengthscale = torch.tensor(-2 / math.log1p(-EPSILON), dtype=torch.float64)
    return SingleTaskGP(
        X,
        y.unsqueeze(-1),
        torch.full_like(y, NOISE).unsqueeze(-1),
        covar_module=space(active=True) * in_time,
        mean_module=ZeroMean(),
        outcome_transform=None,
    ).eval()


def rival_search(model: SingleTaskGP, now: float, beta: float) -> tuple[Tensor, float]:
    """What ``optimize_acqf`` finds at a time: a point, `6`, and its acquisition value."""
    low = [0.0] * DIM + [now]
    high = [1.0] * DIM + [now + 1]
    found, value = optimize_acqf(
        UpperConfidenceBound(model, beta=beta),
        torch.tensor([low, high], dtype=torch.float64),
        q=1,
        num_restarts=RESTARTS,
        raw_samples=RAW_SAMPLES,
        fixed_features={DIM: now},
    )
    return found[0, :DIM].detach(), float(value)


def play_rival(world: World, loop: int, rounds: int) -> tuple[Tensor, float]:
    """Regret of one BoTorch loop, `rounds`, and its seconds."""
    torch.manual_seed(loop)
    X, y = torch.empty(0, DIM + 1, dtype=torch.float64), torch.empty(0, dtype=torch.float64)
    regrets, seconds = [], 0.0
    for round_ in range(rounds):
        now, begin = float(round_ + 1), time.perf_counter()
        point = torch.full((DIM,), 0.5, dtype=torch.float64)
        if round_:
            beta = WIDTH.c1 * math.log(WIDTH.c2 * now)
            point, _ = rival_search(rival_model(X, y), now, beta)
        seconds += time.perf_counter() - begin
        seen, regret = world.measure(point.unsqueeze(0), slice(loop, loop + 1), round_)
        regrets.append(regret[0])
        X = torch.cat([X, torch.cat([point, point.new_tensor([now])]).unsqueeze(0)])
        y = torch.cat([y, seen])
    return torch.stack(regrets), seconds


def compare_searches(states: list[State], loops: int) -> dict[str, float]:
    """Our best acquisition values less the rival's on the same data, in prior deviations."""
    contender, gains = strategy(), []
    for state in states:
        ours = contender.ask(state)
        values = ours.mean + ours.sqrt_beta * ours.sd
        for loop in range(loops):
            log = state.history
            X = torch.cat([log.choice.tensor(), log.time.tensor().unsqueeze(-1)], -1)[loop]
            model = rival_model(X.cpu(), log.y.tensor()[loop].cpu())
            beta = float(ours.sqrt_beta[loop]) ** 2
            _, theirs = rival_search(model, float(ours.time[loop]), beta)
            gains.append((float(values[loop]) - theirs) / VARIANCE**0.5)
    if not gains:
        return {"searches": 0}
    found = torch.tensor(gains)
    return {
        "searches": len(gains),
        "mean": float(found.mean()),
        "worst": float(found.min()),
        "best": float(found.max()),
        "share not worse by more than 1e-3": float((found >= -1e-3).double().mean()),
        "share better by more than 1e-3": float((found > 1e-3).double().mean()),
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line("speed.boxes", __doc__, threads=cores(), device="cpu")
    parser.add_argument("--loops", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rivals", type=int, default=16, help="loops that BoTorch plays too")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    options = parse(arguments)
    warnings.filterwarnings("ignore")
    facts = begin(options.threads, seed=1, device=options.device)
    world = World(options.loops, options.rounds, options.device)
    regret, seconds, states = play(world, options.rounds, options.device)
    rivals = min(options.rivals, options.loops)
    here = World(options.loops, options.rounds, torch.device("cpu"))
    torch.set_num_threads(1)  # small matrices: a second thread slows the rival down
    played = [play_rival(here, loop, options.rounds) for loop in range(rivals)]
    each = sum(one for _, one in played) / rivals
    theirs = torch.stack([one for one, _ in played]).sum(-1)
    difference = regret[:rivals].sum(-1).cpu() - theirs
    error = float(difference.std() / rivals**0.5)
    record = {
        "environment": facts,
        "loops": options.loops,
        "rounds": options.rounds,
        "seconds, all loops": seconds,
        "rival seconds per loop": each,
        "ratio to rivals one after another": each * options.loops / seconds,
        "ratio to rivals in a process per core": each * options.loops / cores() / seconds,
        "total regret": float(regret[:rivals].sum(-1).mean()),
        "rival total regret": float(theirs.mean()),
        "regret less rival's": {"mean": float(difference.mean()), "standard error": error},
        "acquisition values less rival's": compare_searches(states, min(4, rivals)),
    }
    for key, value in record.items():
        if key != "environment":
            print(f"{key}: {value}")
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
