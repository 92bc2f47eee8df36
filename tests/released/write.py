"""Write the files of a release, once, with its version: python tests/released/write.py FOLDER."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import torch
from gpytorch.kernels import RBFKernel

from botorch_tv import Choice, Context, Float, Grid, Integer, Loop, gp_ucb, run_study, tv_gp_ucb
from botorch_tv.simulation import MarkovWorld

START = datetime(2026, 3, 1, 22, tzinfo=UTC)
ROUNDS = 6


def given() -> dict[str, object]:
    """A kernel and noise."""
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    return {"kernel": kernel, "noise": 0.1}


def press() -> Loop:
    """Named parameters, dates, a failure, and an open suggestion."""
    ranges = {"temperature": (20, 80), "rate": Float(1e-4, 1, log=True), "layers": Integer(1, 8)}
    loop = Loop(ranges | {"metal": Choice("steel", "brass")})
    for hour in range(ROUNDS):
        loop.ask(now=START + timedelta(hours=hour))
        loop.tell(float(hour), ok=hour != 3)
    loop.ask(now=START + timedelta(hours=ROUNDS))
    return loop


def furnace() -> Loop:
    """Several outcomes, limits, a context, a missing outcome, a largest step, a cost of moves."""
    loop = Loop(
        {"temperature": (650, 900), "flow": (0, 1), "outside": Context(-10, 40)},
        objective="yield",
        constraints=["pressure <= 5", "temperature + 300 * flow <= 1000"],
        max_step={"temperature": 50},
        move_cost={"flow": 0.5},
    )
    for hour in range(ROUNDS):
        loop.ask(now=hour, context={"outside": 2.0 * hour})
        loop.tell({"yield": float(hour)} | ({} if hour == 2 else {"pressure": 4.5}))
    return loop


def table() -> Loop:
    """The points of a grid, numbers as times, a given kernel, and a corrected reading."""
    loop = Loop(Grid.regular(points=5, dim=2), strategy=tv_gp_ucb(**given(), epsilon=0.03))
    for hour in range(ROUNDS):
        loop.ask(now=hour)
        loop.tell(float(hour))
    loop.amend(2, -1.0)
    return loop


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True)
    for make in (press, furnace, table):
        make().save(folder / f"{make.__name__}.json")
    world = MarkovWorld(Grid.regular(points=5, dim=2), epsilon=0.03, **given())
    players = {"GP": gp_ucb(**given()), "TV": tv_gp_ucb(**given(), epsilon=0.03)}
    run_study(world, players, trials=2, horizon=5, seed=0).save(folder / "study.nc")


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    main(Path(sys.argv[1]))
