import re

import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection, QuadMesh

from botorch_tv.cli.command import main
from botorch_tv.simulation import MarkovWorld, PredictionError, StudyResult, run_study
from botorch_tv.simulation.plots.recorded import arrangement, lattice
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import Grid, gp_ucb, tv_gp_ucb

# Tiny grids have arms far apart.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
KERNEL = unit_kernel("se", 0.3)
PLAYERS = {
    "GP": gp_ucb(kernel=KERNEL, noise=0.1),
    "TV": tv_gp_ucb(kernel=KERNEL, noise=0.1, epsilon=0.05),
    "blind": gp_ucb(kernel=KERNEL, noise=1e9, mean=3.0),
}


def study(grid: Grid, **changes: object) -> StudyResult:
    world = MarkovWorld(grid, kernel=KERNEL, epsilon=0.05, noise=0.01)
    settings: dict = {"trials": 4, "horizon": 8, "progress": False, "record": (PredictionError(),)}
    return run_study(world, PLAYERS, **{**settings, **changes})


def grid_of(points: np.ndarray) -> Grid:
    return Grid(torch.as_tensor(points, dtype=torch.float64))


@pytest.fixture(scope="module")
def result() -> StudyResult:
    ys, xs = np.linspace(50, 51, 3), np.linspace(0, 1, 5)
    return study(grid_of(np.array([[y, x] for y in ys for x in xs])))  # as latitude and longitude


def test_maps_of_errors(result, tmp_path) -> None:
    figure = result.plot_prediction_error(tmp_path / "new" / "maps.png", across=1)
    assert (tmp_path / "new" / "maps.png").stat().st_size > 5000
    maps = figure.axes[: len(PLAYERS)]
    means = result.prediction_error["mean"]
    order = means.mean("arm").to_series().sort_values().index
    assert [axes.get_title(loc="left").split(":")[0] for axes in maps] == list(order)
    assert order[-1] == "blind"
    for axes, label in zip(maps, order):
        (mesh,) = [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]
        shown = np.asarray(mesh.get_array()).reshape(3, 5)
        np.testing.assert_array_equal(shown, means.sel(strategy=label).values.reshape(3, 5))
        # The corner of a mesh lies half a cell outside its first arm.
        corners = mesh.get_coordinates()
        np.testing.assert_allclose(corners[0, 0], [-0.125, 49.75])
        np.testing.assert_allclose(corners[-1, -1], [1.125, 51.25])
        mean, error = map(float, re.findall(r"[\d.]+", axes.get_title(loc="left")))
        of_trials = result.squared_error.sel(strategy=label).mean("round").values
        assert mean == pytest.approx(of_trials.mean(), abs=error)
        assert error == pytest.approx(of_trials.std(ddof=1) / 2, rel=0.5)
    assert len({mesh.norm.vmax for axes in maps for mesh in axes.collections}) == 1


def test_lattices_may_come_in_any_order() -> None:
    places = np.array([[x, y] for x in (0.0, 2.0, 3.0) for y in (5.0, 1.0)])
    shuffled = places[np.random.default_rng(0).permutation(6)]
    xs, ys, number = lattice(shuffled)
    np.testing.assert_array_equal(shuffled[number], np.stack(np.meshgrid(xs, ys), -1))
    assert lattice(places[:5]) is None
    assert lattice(np.array([[0, 0], [1, 1], [0, 1], [2, 2.0]])) is None


def test_scattered_arms_are_dots() -> None:
    places = np.random.default_rng(0).random((9, 2))
    figure = study(grid_of(places)).plot_prediction_error()
    (dots,) = [dots for dots in figure.axes[0].collections if isinstance(dots, PathCollection)]
    np.testing.assert_allclose(dots.get_offsets(), places)


def test_aspect(result) -> None:
    flat, high = (result.plot_prediction_error(across=1, aspect=ratio) for ratio in (1.0, 2.0))
    assert (flat.axes[0].get_aspect(), high.axes[0].get_aspect()) == (1.0, 2.0)
    assert high.get_figheight() > 1.5 * flat.get_figheight()
    assert result.plot_prediction_error(aspect=99.0).axes[0].get_aspect() == "auto"


def test_arms_on_a_line_make_curves() -> None:
    places = np.array([[0.5], [0.0], [1.0], [0.25]])
    result = study(grid_of(places), trials=1)
    figure = result.plot_prediction_error(names=["depth"])
    (axes,) = figure.axes
    assert axes.get_xlabel() == "depth"
    lines = {line.get_color(): line for line in axes.lines}
    assert len(lines) == len(PLAYERS)
    drawn = sorted(tuple(line.get_ydata()) for line in lines.values())
    means = result.prediction_error["mean"].values[:, [1, 3, 0, 2]]
    np.testing.assert_allclose(drawn, sorted(map(tuple, means)))
    assert "one trial" in figure._supxlabel.get_text()


def test_studies_without_a_map(result) -> None:
    cube = study(Grid.regular(2, 3), horizon=2)
    with pytest.raises(ValueError, match="3 coordinates, but a map shows at most two"):
        cube.plot_prediction_error()
    plain = study(Grid.regular(2, 2), record=())
    with pytest.raises(ValueError, match="did not record"):
        plain.plot_prediction_error()


@pytest.mark.parametrize(
    ("mean", "error", "text"),
    [
        (1.0993, 0.0019, "1.099 ± 0.002"),
        (0.775, 0.023, "0.78 ± 0.02"),
        (12345.0, 321.0, "12345 ± 321"),
        (0.5, float("nan"), "0.5"),
        (0.5, 0.0, "0.5"),
    ],
)
def test_texts_of_scores(mean, error, text) -> None:
    assert str(Paired(mean, error)) == text


def test_rows_are_about_equally_full() -> None:
    assert [arrangement(n) for n in (1, 4, 5, 6, 7, 9)] == [
        (1, 1), (1, 4), (2, 3), (2, 3), (2, 4), (3, 3),
    ]  # fmt: skip


def test_on_the_command_line(tmp_path, capsys) -> None:
    options = ["--trials", "3", "--horizon", "6", "--strategies", "GP,TV"]
    small = [*options, "--quiet", "--prediction-error"]
    out = ["--out", str(tmp_path)]
    assert main(["compare", *small, *out, "--points", "4", "--dim", "2"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"mean over arms, rounds and trials: \S+-UCB [\d.]+ ± [\d.]+, ", printed)
    assert "compare-prediction-error.png" in printed
    (tmp_path / "compare-prediction-error.png").unlink()
    assert main(["plot", str(tmp_path / "compare.nc")]) == 0
    assert (tmp_path / "compare-prediction-error.png").exists()
    (tmp_path / "compare-prediction-error.png").unlink()
    assert main(["compare", *small, *out, "--points", "2", "--dim", "3"]) == 0
    assert "trials: " in capsys.readouterr().out
    assert not (tmp_path / "compare-prediction-error.png").exists()
