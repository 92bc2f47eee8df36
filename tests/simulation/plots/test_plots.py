from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from pictures import assert_bands, assert_curves, assert_written, named_curves
from synthetic_results import make_result, random_result

from botorch_tv.drawing import canvas, written
from botorch_tv.simulation.plots import plot_first_reset, plot_panels, plot_regret
from botorch_tv.simulation.plots.curves import line_styles, name_curves, regret_curves, spread_apart

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


def test_labels_are_spread_apart():
    assert spread_apart([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread_apart([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    moved = spread_apart([0.2, 0.5, 0.51, 0.52, 0.9], 0.1)
    assert moved == pytest.approx([0.2, 0.41, 0.51, 0.61, 0.9])
    crowded = spread_apart([0.5, 0.58, 0.69], 0.1)  # the third collides once the second moved
    assert np.diff(crowded) == pytest.approx([0.1, 0.1])
    assert np.mean(crowded) == pytest.approx(0.59)
    assert spread_apart([0.5, 0.5, 0.9], [0.1, 0.3]) == pytest.approx([0.45, 0.55, 0.9])
    uneven = spread_apart([0.5, 0.5, 0.6], [0.1, 0.3])  # the last is pushed from 0.55 + 0.3
    assert np.diff(uneven) == pytest.approx([0.1, 0.3])
    assert np.mean(uneven) == pytest.approx(1.6 / 3)


def test_labels_of_two_lines_do_not_overlap():
    figure = canvas(6, 3)
    axes = figure.subplots()
    axes.set_ylim(0, 1)
    ends = {"one": 0.5, "two\nlines": 0.5, "again\ntwo": 0.51, "last": 0.52}
    curves = {name: (np.array([end]), np.array([0.0])) for name, end in ends.items()}
    name_curves(axes, curves, line_styles(list(ends)))
    written(figure, None).canvas.draw()
    boxes = sorted((Text.get_window_extent(text) for text in axes.texts), key=lambda box: box.y0)
    for below, above in pairwise(boxes):
        assert below.y1 <= above.y0 + 1  # a pixel


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
    for label in LEVELS:
        colors = {named_curves(axes)[label].get_color() for axes in (average, total)}
        assert len(colors) == 1
    assert "Mean of 8 trials; bands: ± 1 standard error" in figure.get_supxlabel()
    low, high = average.get_ylim()
    assert low == 0
    assert all(line.get_ydata()[6:].max() < high for line in average.lines)
    fired = result.resets.sel(strategy="ET-GP-UCB").values
    for row, ticks in zip(fired, strip.collections, strict=True):
        np.testing.assert_array_equal(ticks.get_positions(), 1 + np.flatnonzero(row))
        color = named_curves(average)["ET-GP-UCB"].get_color()
        assert tuple(np.ravel(ticks.get_color())[:3]) == to_rgb(color)
    assert f"ET-GP-UCB\n{fired.sum(1).mean():.1f} resets" in texts(figure)


@pytest.mark.parametrize(("trials", "rounds"), [(1, 5), (3, 1), (1, 1)])
@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_smallest_studies_can_be_drawn(trials, rounds, tmp_path):
    result = random_result({"A": 1.0, "B": 0.0}, trials, rounds)
    figure = result.plot(tmp_path / "small.png")
    assert_written(tmp_path / "small.png")
    average, total = figure.axes
    for axes, normalized in ((average, True), (total, False)):
        curves = regret_curves(result, normalized)
        assert_curves(axes, {label: mean for label, (mean, _) in curves.items()})
    assert figure.get_supxlabel().startswith("One trial." if trials == 1 else "Mean of 3 trials")


@pytest.mark.parametrize("count", [1, 3, 4])
def test_panels_share_a_scale(count, tmp_path):
    results = {f"panel {n}": random_result(LEVELS, 4, 30, seed=n) for n in range(count)}
    figure = plot_panels(results, tmp_path / "panels.png")
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == list(results)
    assert len({axes.get_ylim() for axes in shown}) == 1
    for axes, result in zip(shown, results.values(), strict=True):
        assert_curves(
            axes, {label: mean for label, (mean, _) in regret_curves(result, True).items()}
        )
        assert axes.get_xlabel() == "round"
    assert shown[0].get_ylabel() == "normalised regret $R_t / t$"
    looks_of = [{k: v.get_color() for k, v in named_curves(axes).items()} for axes in shown]
    assert all(look == looks_of[0] for look in looks_of)


def test_panels_of_studies_that_share_no_unit():
    results = {f"panel {n}": random_result(LEVELS, 4, 30, seed=n) for n in range(2)}
    results["panel 1"].data["regret"] *= 100
    low, high = plot_panels(results, one_scale=False).axes
    assert high.get_ylim()[1] > 50 * low.get_ylim()[1]


def test_logarithmic_panels_show_cumulative_regret():
    result = random_result(LEVELS, 4, 30)
    [axes] = plot_panels({"one": result}, logarithmic=True).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    ends = sorted(float(line.get_ydata()[-1]) for line in axes.lines)
    totals = [float(result.total_regret(label).mean()) for label in result.strategies]
    assert ends == pytest.approx(sorted(totals))
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert sorted(heights, key=heights.get) == sorted(
        result.strategies, key=lambda label: result.total_regret(label).mean()
    )


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
