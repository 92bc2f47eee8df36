"""A study plays limits, failures and missing outcomes as a loop does."""

import pytest
import torch

from botorch_tv import Grid, Loop, gp_ucb, tv_gp_ucb
from botorch_tv.simulation import Violations, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import MarkovWorld, OutcomesWorld
from botorch_tv.strategies import Outcomes
from botorch_tv.strategies.expressions import parse_limits, parse_objectives

GRID, KERNEL = Grid.regular(points=7, dim=2), unit_kernel("se", 0.3)
MODEL = tv_gp_ucb(kernel=KERNEL, noise=0.01, epsilon=0.02)


def world(failures=()) -> OutcomesWorld:
    worlds = {
        name: MarkovWorld(GRID, kernel=KERNEL, epsilon=0.02, noise=0.01) for name in ("y", "p")
    }
    return OutcomesWorld(worlds, 0.01, constraints="p <= 0.3", failures=failures)


def strategy(**others) -> Outcomes:
    limits = parse_limits("p <= 0.3")
    objectives = parse_objectives("y")
    return Outcomes(names=("y", "p"), objectives=objectives, limits=limits, model=MODEL, **others)


def test_a_trial_of_a_study_is_a_loop() -> None:
    study = run_study(
        world("y >= -1"), {"own": strategy()}, trials=2, horizon=15, seed=3, record=(Violations(),)
    )
    like = {"dtype": torch.float64, "device": torch.device("cpu")}
    for trial in range(2):
        values = world("y >= -1").objectives(Stream(3, "world", trial, 1, **like))
        noise = Stream(3, "noise", trial, 1, spread=0.1, **like)
        loop = Loop(strategy(avoids_failures=False), GRID)
        for step in range(15):
            now, suggestion = next(values), loop.ask(now=float(step + 1))
            arm = torch.tensor([int(GRID.index_of(suggestion.X))])
            assert int(study.data["index"].sel(strategy="own")[trial, step]) == int(arm)
            y = (now.outcomes_at(arm) + noise.normal(2))[0].tolist()
            loop.tell(dict(zip("yp", y)), ok=bool(now.succeeds[0, arm]))
            kept = bool(now.kept[0, arm])
            assert bool(study.data["violated"].sel(strategy="own")[trial, step]) != kept


@pytest.mark.full
def test_a_strategy_with_limits_violates_fewer() -> None:
    strategies = {"limits": strategy(), "none": gp_ucb(kernel=KERNEL, noise=0.01)}
    study = run_study(world(), strategies, trials=24, horizon=40, seed=0, record=(Violations(),))
    share = study.data["violated"].isel(round=slice(15, None)).mean(("trial", "round"))
    assert float(share.sel(strategy="limits")) < 0.15 < float(share.sel(strategy="none"))
    assert bool((study.data["regret"] >= 0).all())
