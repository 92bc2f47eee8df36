from functools import partial

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from synthetic_results import drawn_diagnosis, random_result

from botorch_tv.simulation import MarkovWorld, PredictionError, run_study
from botorch_tv.simulation.plots import plot_first_reset
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, gp_ucb, tv_gp_ucb
from botorch_tv.theory.plots import plot_bounds, plot_orders

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
PLAIN = random_result({"ET-GP-UCB": 0.5, "own": 1.0}, trials=4, rounds=40, resets_of="ET-GP-UCB")
DIAGNOSED = drawn_diagnosis({"ET-GP-UCB": 2.0, "GP": 3.0}, 8, 60, trigger_of="ET-GP-UCB")
BOUND = {"a bound": lambda horizons: 10 * horizons}
DRAWERS = {
    "regret": PLAIN.plot,
    "cumulative": partial(PLAIN.plot, normalized=False),
    "first reset": partial(plot_first_reset, {0.03: PLAIN}, {0.03: 17}),
    "triggers": DIAGNOSED.plot_triggers,
    "calibration": DIAGNOSED.plot_calibration,
    "simple regret": DIAGNOSED.plot_simple_regret,
    "bounds": partial(plot_bounds, PLAIN, BOUND),
    "orders": partial(plot_orders, PLAIN, BOUND),
}


def shown(axes):
    return {
        "curves": [
            (*line.get_data(), line.get_color(), line.get_linestyle()) for line in axes.lines
        ],
        "texts": [text.get_text() for text in axes.texts],
        "filled": len(axes.collections),
        "steps": len(axes.patches),
        "up": axes.get_ylabel(),
        "limits": axes.get_ylim(),
    }


@pytest.mark.parametrize("name", DRAWERS)
def test_it_is_the_first_panel(name, tmp_path):
    figure = Figure(figsize=(12, 4))
    left, right = figure.subplots(1, 2)
    assert DRAWERS[name](ax=right) is figure
    assert figure.axes == [left, right]
    assert not left.has_data()
    whole = DRAWERS[name]().axes[1 if name == "cumulative" else 0]
    mine, theirs = shown(right), shown(whole)
    for own, expected in zip(mine.pop("curves"), theirs.pop("curves"), strict=True):
        np.testing.assert_array_equal(own[:2], expected[:2])
        assert own[2:] == expected[2:]
    assert mine == theirs
    with pytest.raises(ValueError, match="path and ax are both given"):
        DRAWERS[name](path=tmp_path / "both.png", ax=right)
    assert not (tmp_path / "both.png").exists()


@pytest.fixture(scope="module")
def errors():
    ys, xs = np.linspace(0, 1, 3), np.linspace(0, 1, 5)
    grid = Grid(torch.tensor([[y, x] for y in ys for x in xs]).double())
    kernel = unit_kernel("se", 0.3)
    world = MarkovWorld(grid, kernel=kernel, epsilon=0.05, noise=0.01)
    players = {
        "GP": gp_ucb(kernel=kernel, noise=0.1),
        "TV": tv_gp_ucb(kernel=kernel, noise=0.1, epsilon=0.05),
    }
    recorded = {"record": (PredictionError(),), "progress": False}
    return run_study(world, players, trials=4, horizon=8, **recorded)


@pytest.mark.parametrize("strategy", ["GP", "TV", None])
def test_the_map_of_a_strategy(errors, strategy):
    figure = Figure()
    axes = figure.subplots()
    assert errors.plot_prediction_error(ax=axes, strategy=strategy) is figure
    label = strategy or min(errors.mean_squared_error().items(), key=lambda item: item[1].mean)[0]
    assert axes.get_title(loc="left").startswith(f"{label}: ")
    (mesh,) = [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]
    wanted = errors.prediction_error["mean"].sel(strategy=label).values.reshape(3, 5).T
    np.testing.assert_array_equal(np.asarray(mesh.get_array()).reshape(5, 3), wanted)
    alone = errors.plot_prediction_error(strategy=label)
    (same,) = [mesh for mesh in alone.axes[0].collections if isinstance(mesh, QuadMesh)]
    assert same.get_clim() == mesh.get_clim()  # the scale of all strategies
    with pytest.raises(ValueError, match="missing"):
        errors.plot_prediction_error(strategy="missing")
