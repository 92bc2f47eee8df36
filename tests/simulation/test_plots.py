import itertools
import re
from functools import partial

import numpy as np
import pytest
import torch
from helpers.pictures import assert_bands, assert_curves, assert_written, named_curves
from helpers.synthetic_results import drawn_diagnosis, make_result, random_result
from matplotlib.collections import PolyCollection, QuadMesh

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import MarkovWorld, PredictionError, StudyResult, Weights, run_study
from botorch_tv.simulation.plots import plot_first_reset, plot_panels, plot_regret
from botorch_tv.simulation.plots.curves import line_styles, regret_curves, spread_apart
from botorch_tv.simulation.plots.recorded import lattice
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import Grid, adaptive_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.strategies.listing import PRESETS

LEVELS = {"GP-UCB": 1.0, "R-GP-UCB": 0.8, "ET-GP-UCB": 0.5}


def texts(figure):
    return [text.get_text() for axes in figure.axes for text in axes.texts]


def test_curve_by_hand():
    result = make_result({"A": [[2, 4, 0], [4, 0, 5]]})
    mean, error = regret_curves(result, normalized=False)["A"]
    np.testing.assert_allclose(mean, [3, 5, 7.5])
    np.testing.assert_allclose(error, [1, 1, 1.5])  # |difference| / 2 for two trials
    mean, error = regret_curves(result, normalized=True)["A"]
    np.testing.assert_allclose(mean, [3, 2.5, 2.5])
    np.testing.assert_allclose(error, [1, 0.5, 0.5])


@pytest.mark.parametrize(
    ("ends", "room", "places"),
    [
        ([0.1, 0.5, 0.9], 0.1, [0.1, 0.5, 0.9]),
        ([0.5, 0.5], 0.1, [0.45, 0.55]),
        ([0.2, 0.5, 0.51, 0.52, 0.9], 0.1, [0.2, 0.41, 0.51, 0.61, 0.9]),
        ([0.5, 0.58, 0.69], 0.1, [0.49, 0.59, 0.69]),  # the third collides with the moved second
        ([0.5, 0.5, 0.9], [0.1, 0.3], [0.45, 0.55, 0.9]),
    ],
)
def test_labels_are_spread_apart(ends, room, places):
    assert spread_apart(ends, room) == pytest.approx(places)


def test_regret_picture(tmp_path):
    result = random_result(LEVELS, trials=8, rounds=60, resets_of="ET-GP-UCB")
    figure = plot_regret(result, tmp_path / "new" / "regret.png")
    assert_written(tmp_path / "new" / "regret.png")
    average, total, strip = figure.axes
    for axes, normalized in ((average, True), (total, False)):
        curves = regret_curves(result, normalized)
        assert_curves(axes, {label: mean for label, (mean, _) in curves.items()})
        edges = {label: (mean - sd, mean + sd) for label, (mean, sd) in curves.items()}
        assert_bands(axes, edges)
    assert "Mean of 8 trials; bands: ± 1 standard error" in figure.get_supxlabel()
    fired = result.resets.sel(strategy="ET-GP-UCB").values
    for row, ticks in zip(fired, strip.collections, strict=True):
        np.testing.assert_array_equal(ticks.get_positions(), 1 + np.flatnonzero(row))
    assert f"ET-GP-UCB\n{fired.sum(1).mean():.1f} resets" in texts(figure)


@pytest.mark.few("1-1", "1-5")
@pytest.mark.parametrize(("trials", "rounds"), [(1, 5), (3, 1), (1, 1)])
@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_smallest_studies_can_be_drawn(trials, rounds):
    result = random_result({"A": 1.0, "B": 0.0}, trials, rounds)
    for axes, normalized in zip(result.plot().axes, (True, False), strict=True):
        curves = regret_curves(result, normalized)
        assert_curves(axes, {label: mean for label, (mean, _) in curves.items()})
    diagnosed = drawn_diagnosis({"A": 1.0, "ET": 5.0}, trials, rounds, trigger_of="ET")
    diagnosed.plot_triggers()
    diagnosed.plot_calibration()
    regret = diagnosed.simple_regret.mean("trial")
    means = {label: regret.sel(strategy=label) for label in ("A", "ET")}
    assert_curves(diagnosed.plot_simple_regret().axes[0], means)


@pytest.mark.few("1")
@pytest.mark.parametrize("count", [1, 3])
def test_panels_share_a_scale(count, tmp_path):
    results = {f"panel {n}": random_result(LEVELS, 4, 30, seed=n) for n in range(count)}
    figure = plot_panels(results, tmp_path / "panels.png")
    axes = [axes for axes in figure.axes if axes.get_visible()]
    assert [part.get_title(loc="left") for part in axes] == list(results)
    assert len({part.get_ylim() for part in axes}) == 1
    for part, result in zip(axes, results.values(), strict=True):
        means = {label: mean for label, (mean, _) in regret_curves(result, True).items()}
        assert_curves(part, means)


@pytest.mark.full
@pytest.mark.parametrize("one_scale", [True, False])
def test_panels_with_rows_of_resets(one_scale):
    """Below each panel, a strip per strategy that resets, with a row per trial."""
    results = {
        "both": random_result(LEVELS, 4, 30, seed=1, resets_of="ET-GP-UCB"),
        "none": random_result(LEVELS, 4, 30, seed=2),
        "more": random_result(LEVELS, 30, 40, seed=3, resets_of="ET-GP-UCB"),
        "last": random_result(LEVELS, 4, 30, seed=4, resets_of="GP-UCB"),
        "fifth": random_result(LEVELS, 4, 30, seed=5),
    }
    figure = plot_panels(results, resets=True, one_scale=one_scale)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 3 * len(results)  # a panel and two strips each
    for title, result in results.items():
        panel = next(axes for axes in shown if axes.get_title(loc="left") == title)
        box = panel.get_subplotspec()
        strips = [
            next(
                axes
                for axes in shown
                if axes.get_subplotspec().rowspan.start == box.rowspan.start + below
                and axes.get_subplotspec().colspan.start == box.colspan.start
            )
            for below in (1, 2)
        ]
        for strip, label in zip(strips, ("ET-GP-UCB", "GP-UCB")):
            fired = result.resets.sel(strategy=label).values[:25]
            for row, ticks in zip(fired, strip.collections, strict=True):
                np.testing.assert_array_equal(ticks.get_positions(), 1 + np.flatnonzero(row))
            assert strip.get_xlim() == panel.get_xlim()
    assert (len({axes.get_ylim() for axes in shown if axes.lines}) == 1) is one_scale
    assert "Ticks: resets" in figure.get_supxlabel()
    assert "Ticks" not in plot_panels(results).get_supxlabel()


def test_first_reset_histogram():
    fired = np.zeros((4, 10), dtype=bool)
    fired[0, [1, 5]] = fired[1, 1] = fired[2, 8] = True  # the fourth trial never resets
    result = make_result({"ET-GP-UCB": np.zeros((4, 10))}, {"ET-GP-UCB": fired})
    figure = plot_first_reset({0.03: result}, {0.03: 5})
    (axes,) = figure.axes
    shares = axes.patches[0].get_data().values
    np.testing.assert_allclose(shares, [0, 0.5, 0, 0, 0, 0, 0, 0, 0.25, 0])
    assert "25.0% never reset" in axes.get_legend().get_texts()[0].get_text()
    assert " N = 5" in texts(figure)


# Tiny grids have arms far apart.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")

ALGORITHMS = [preset.names[0] for preset in PRESETS.values()]


def test_styles_of_presets_are_fixed():
    alone = {name: line_styles([name])[name] for name in ALGORITHMS}
    assert len(set(alone.values())) == len(ALGORITHMS)
    for few in itertools.combinations(ALGORITHMS, 2):
        assert line_styles(["own", *few, "0.03"]).items() >= {n: alone[n] for n in few}.items()


def test_other_labels_have_distinct_colours_in_any_order():
    labels = ["GP", "0.03", "trigger", "own", "ET"]
    styles = line_styles(labels)
    assert len({color for color, _ in styles.values()}) == len(labels)
    assert all(line_styles(order) == styles for order in itertools.permutations(labels))


WIDTHS = {"GP-UCB": 3.0, "TV-GP-UCB": 1.0, "ET-GP-UCB": 2.0}


@pytest.fixture
def diagnosed():
    return drawn_diagnosis(WIDTHS, trials=8, rounds=60, trigger_of="ET-GP-UCB")


@pytest.mark.full
def test_trigger_picture_marks_every_reset(diagnosed, tmp_path):
    trial = diagnosed.triggers()["trial"].mode()[0]  # the trial with most resets
    figure = diagnosed.plot_triggers("ET-GP-UCB", trial, tmp_path / "new" / "triggers.png")
    assert_written(tmp_path / "new" / "triggers.png")
    above, below = figure.axes
    fired = diagnosed.triggers().query("trial == @trial")
    (marked,) = [line for line in above.lines if line.get_label() == "reset"]
    np.testing.assert_array_equal(marked.get_xdata(), fired["round"])
    np.testing.assert_array_equal(marked.get_ydata(), fired["observation"])
    model, noise = (
        next(lines for lines in below.collections if lines.get_label() == label).get_segments()
        for label in ("error of the model", "noise")
    )
    for row, of_model, of_noise in zip(fired.itertuples(), model, noise):
        assert of_model[1, 1] == pytest.approx((row.objective - row.mean) / row.band)
        assert of_noise[0] == pytest.approx(of_model[1])
        assert of_noise[1, 1] == pytest.approx((row.observation - row.mean) / row.band)
    assert f"trial {trial}: resets {len(fired)} (" in figure.get_suptitle()


@pytest.mark.full
def test_calibration_picture_draws_the_shares(diagnosed, tmp_path):
    figure = diagnosed.plot_calibration(tmp_path / "calibration.png")
    assert_written(tmp_path / "calibration.png")
    left, middle, right = figure.axes
    shares = diagnosed.calibration()
    for axes, name in ((left, "objective"), (middle, "observation")):
        curves = [line for line in axes.lines if len(line.get_xdata()) == len(shares["level"])]
        for line, label in zip(curves, WIDTHS, strict=True):
            np.testing.assert_allclose(line.get_ydata(), shares[name].sel(strategy=label))
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert [line.get_ydata()[0] for line in dots] == list(shares["played"].values)
    by_round = diagnosed.calibration_by_round(0.9, block=2)["objective"]
    np.testing.assert_allclose(right.lines[1].get_ydata(), by_round.sel(strategy="TV-GP-UCB"))
    assert "2 rounds averaged together" in figure.get_supxlabel()


def test_simple_regret_picture(diagnosed):
    left, right = diagnosed.plot_simple_regret().axes
    regret = diagnosed.simple_regret.mean("trial")
    assert_curves(left, {label: regret.sel(strategy=label) for label in WIDTHS})
    ticks = {tick.get_text(): tick.get_color() for tick in right.get_yticklabels()}
    assert ticks == {name: line.get_color() for name, line in named_curves(left).items()}


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
def predicted() -> StudyResult:
    ys, xs = np.linspace(50, 51, 3), np.linspace(0, 1, 5)
    return study(grid_of(np.array([[y, x] for y in ys for x in xs])))  # as latitude and longitude


@pytest.mark.full
def test_maps_of_errors(predicted, tmp_path) -> None:
    figure = predicted.plot_prediction_error(tmp_path / "new" / "maps.png", across=1)
    assert_written(tmp_path / "new" / "maps.png")
    maps = figure.axes[: len(PLAYERS)]
    means = predicted.prediction_error["mean"]
    order = means.mean("arm").to_series().sort_values().index
    for axes, label in zip(maps, order):
        assert axes.get_title(loc="left").split(":")[0] == label
        (mesh,) = [mesh for mesh in axes.collections if isinstance(mesh, QuadMesh)]
        drawn = np.asarray(mesh.get_array()).reshape(3, 5)
        np.testing.assert_array_equal(drawn, means.sel(strategy=label).values.reshape(3, 5))
        # The corner of a mesh lies half a cell outside its first arm.
        np.testing.assert_allclose(mesh.get_coordinates()[0, 0], [-0.125, 49.75])
        mean, error = map(float, re.findall(r"[\d.]+", axes.get_title(loc="left")))
        of_trials = predicted.squared_error.sel(strategy=label).mean("round").values
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


def test_texts_of_scores() -> None:
    assert str(Paired(1.0993, 0.0019)) == "1.099 ± 0.002"
    assert str(Paired(0.775, 0.023)) == "0.78 ± 0.02"
    assert str(Paired(12345.0, 321.0)) == "12345 ± 321"
    assert str(Paired(0.5, float("nan"))) == str(Paired(0.5, 0.0)) == "0.5"


BANK = Bank(rates=(0.05, 0.0), hazards=(0.0, 0.1), lengthscales=(0.2, 0.4), noise_ratios=(0.01,))
NAMES = ("rate", "hazard", "lengthscale", "noise_ratio")


@pytest.fixture(scope="module")
def weighted() -> StudyResult:
    world = MarkovWorld(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.1, noise=0.02)
    players = {"GP": PLAYERS["GP"], "adaptive": adaptive_gp_ucb(bank=BANK)}
    record = (Weights(BANK),)
    return run_study(world, players, trials=5, horizon=12, progress=False, record=record)


def test_weights_are_means_and_bands_the_middle_half(weighted) -> None:
    figure = weighted.plot_weights()
    for axes, name in zip(figure.axes, NAMES):
        weight = weighted.data[f"weight_{name}"].sel(strategy="adaptive").sortby(name)
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == [f"{value:g}" for value in sorted(weight[name].values)]
        bands = [band for band in axes.collections if isinstance(band, PolyCollection)]
        for number, (line, band) in enumerate(zip(axes.lines, bands, strict=True)):
            values = weight.values[..., number]
            np.testing.assert_allclose(line.get_ydata(), values.mean(0))
            corners = band.get_paths()[0].vertices
            last = corners[corners[:, 0] == 12, 1]
            wanted = np.quantile(values[:, -1], [0.25, 0.75])
            np.testing.assert_allclose((last.min(), last.max()), wanted)
    jump = weighted.data["jump"].sel(strategy="adaptive").values
    np.testing.assert_allclose(figure.axes[-1].lines[0].get_ydata(), jump.mean(0))


def test_studies_that_cannot_be_drawn(diagnosed, weighted) -> None:
    plain, record = study(Grid.regular(2, 2), record=()), r"run_study\(\.\.\., record=\("
    cube = study(Grid.regular(2, 3), horizon=2)
    learned = study(Grid.regular(3, 1), record=(Weights(),))
    for draw, message in (
        (partial(diagnosed.plot_triggers, "SW"), "SW does not reset by a trigger"),
        (partial(diagnosed.plot_triggers, "GP-UCB"), "GP-UCB does not reset by a trigger"),
        (plain.plot_triggers, record + r"Diagnosis\(\),\)\)"),
        (plain.plot_calibration, record + r"Diagnosis\(\),\)\)"),
        (plain.plot_simple_regret, record + r"Diagnosis\(\),\)\)"),
        (plain.plot_prediction_error, "did not record"),
        (plain.plot_weights, "record="),
        (cube.plot_prediction_error, "3 coordinates, but a map shows at most two"),
        (
            partial(weighted.plot_weights, strategy="GP"),
            "GP has no recorded weights.*from adaptive",
        ),
        (learned.plot_weights, "give its bank to Weights"),
    ):
        with pytest.raises(ValueError, match=message):
            draw()
