"""A GPU changes nothing but the time it takes: on grids, choice for choice."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.presets import Preset, each_pair
from conformance.rounds import Setting, make_world, play

from botorch_tv.experts import sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.simulation import (
    AbruptWorld,
    Diagnosis,
    DriftWorld,
    GaussianDraw,
    MarkovWorld,
    PanelWorld,
    PredictionError,
    RKHSFunctions,
    SineWorld,
    SmoothedDraw,
    StaticWorld,
    run_study,
)
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, et_gp_ucb, gp_ts, sw_gp_ucb, tv_gp_ucb

pytestmark = pytest.mark.gpu
SETTING = Setting(points=6, kernel="matern", noise=0.02, rounds=40)
GRID, KERNEL, NOISE = Grid.regular(6, 2), unit_kernel("se", 0.2), 0.02
TRIALS = 4


@each_pair(2)
def test_choices_are_those_of_the_cpu(preset: Preset, engine: str) -> None:
    if engine == "exact" and preset.samples:
        pytest.skip("a sample by regression depends on eigenvectors, which are not unique")
    if preset.consults:
        pytest.skip("told below, with an expert")
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    here, there = (
        play(strategy, SETTING.domain, world, (TRIALS,), every=13, device=device)
        for device in ("cpu", "cuda")
    )
    np.testing.assert_array_equal(here.index, there.index)
    np.testing.assert_array_equal(here.reset, there.reset)
    for name in ("mean", "sd", "posterior_mean", "posterior_variance"):
        np.testing.assert_allclose(getattr(here, name), getattr(there, name), rtol=0, atol=1e-8)


def players() -> dict[str, Any]:
    known = {"kernel": KERNEL, "noise": NOISE}
    return {
        "ET": et_gp_ucb(**known),
        "TV": tv_gp_ucb(**known, epsilon=0.03),
        "SW": sw_gp_ucb(**known, window=13),
        "TS": gp_ts(**known),
    }


def worlds() -> dict[str, Any]:
    draws = {"gaussian": GaussianDraw(KERNEL), "smoothed": SmoothedDraw(KERNEL, NOISE)}
    draws["sum"] = RKHSFunctions(KERNEL)
    still = {name: StaticWorld(GRID, functions=one, noise=NOISE) for name, one in draws.items()}
    common = {"functions": draws["gaussian"], "noise": NOISE}
    return still | {
        "markov": MarkovWorld(GRID, kernel=KERNEL, epsilon=0.03, noise=NOISE),
        "abrupt": AbruptWorld(GRID, changes=(5, 9), **common),
        "drift": DriftWorld(GRID, horizon=20, **common),
        "sine": SineWorld(Grid.regular(100, 1), kernel=KERNEL, centers=10, noise=NOISE),
    }


def same(here: Any, there: Any) -> None:
    np.testing.assert_array_equal(here.data["index"], there.data["index"])
    np.testing.assert_array_equal(here.data["side_queries"], there.data["side_queries"])
    np.testing.assert_array_equal(here.resets, there.resets)
    np.testing.assert_allclose(here.regret, there.regret, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", worlds())
def test_a_study_is_that_of_the_cpu(name: str) -> None:
    size = {"trials": 6, "horizon": 20, "progress": False}
    same(*(run_study(worlds()[name], players(), device=one, **size) for one in ("cpu", "cuda")))


def test_a_panel_is_that_of_the_cpu() -> None:
    panel = PanelWorld(make_panel(rounds=80).values, train=60)
    known = {"kernel": panel.kernel, "noise": panel.model_noise}
    strategies = {"TV": tv_gp_ucb(**known, epsilon=panel.epsilon), "ET": et_gp_ucb(**known)}
    size = {"trials": 3, "horizon": 20, "progress": False}
    same(*(run_study(panel, strategies, device=one, **size) for one in ("cpu", "cuda")))


def test_records_of_a_study_come_back() -> None:
    """Diagnosis and maps of prediction errors too."""
    size: dict[str, Any] = {"trials": 3, "horizon": 12, "progress": False}
    size |= {"record": (Diagnosis(), PredictionError())}
    world = worlds()["markov"]
    here, there = (run_study(world, players(), device=one, **size) for one in ("cpu", "cuda"))
    same(here, there)
    assert set(here.data) == set(there.data)
    for name in set(here.data) - {"index"}:
        found, wanted = there.data[name].values, here.data[name].values
        np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-7, err_msg=str(name))


def test_a_study_goes_on_where_it_ended(tmp_path: Path) -> None:
    world = worlds()["markov"]
    size: dict[str, Any] = {"horizon": 12, "progress": False, "device": "cuda", "chunk": 3}
    run_study(world, players(), trials=3, save_to=tmp_path, **size)
    resumed = run_study(world, players(), trials=6, save_to=tmp_path, **size)
    same(resumed, run_study(world, players(), trials=6, **size))


@pytest.mark.parametrize("steps", [15, "exact"])
def test_an_expert_is_asked(steps: Any) -> None:
    known = {"kernel": KERNEL, "noise": NOISE, "steps": steps}
    strategies = {"every": sparq_gp_ucb(**known), "windows": w_sparq_gp_ucb(**known, alpha=1.0)}
    size: dict[str, Any] = {"trials": 4, "horizon": 12, "progress": False}
    world = worlds()["markov"]
    here, there = (run_study(world, strategies, device=one, **size) for one in ("cpu", "cuda"))
    if steps == "exact":  # by eigenvectors, which are not unique
        first = {"round": slice(0, 1)}
        np.testing.assert_array_equal(here.data["index"][first], there.data["index"][first])
        assert bool((there.side_queries.sum("round") > 0).all())
    else:
        same(here, there)
