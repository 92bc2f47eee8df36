"""Pictures of bounds over regret."""

import numpy as np
import pytest
import torch
from pictures import assert_curves, assert_written
from synthetic_results import make_result, random_result

from botorch_tv.theory.plots import plot_bounds, plot_orders

LARGEST = "$t$ × largest regret of a round"


def test_bounds_are_drawn_over_cumulative_regret(tmp_path) -> None:
    result = make_result({"A": [[2, 4, 1], [4, 0, 5]], "B": [[1, 1, 1], [1, 1, 1]]})
    path = tmp_path / "pictures" / "bounds.png"
    figure = plot_bounds(result, {"ten each": lambda T: 10 * T}, "A", path)
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    np.testing.assert_allclose(lines["A, mean of trials"], [3, 5, 8])
    np.testing.assert_allclose(lines["ten each"], [10, 20, 30])
    np.testing.assert_allclose(lines[LARGEST], [5, 10, 15])
    styles = {line.get_label(): line.get_linestyle() for line in axes.lines}
    assert styles["A, mean of trials"] != styles["ten each"] != styles[LARGEST]
    thin = [line.get_ydata() for line in axes.lines if line.get_label().startswith("_")]
    np.testing.assert_allclose(thin, [[2, 6, 7], [4, 4, 9]])
    assert path.exists()


def test_orders_touch_the_second_half_from_above(tmp_path) -> None:
    result = make_result({"A": [[4.0, 2.0, 2.0, 0.0]]})  # totals 4, 6, 8, 8
    path = tmp_path / "o.png"
    figure = plot_orders(result, {"root": torch.sqrt, "linear": lambda T: T}, path=path)
    curves = [line.get_ydata() for line in figure.axes[0].lines]
    T = np.arange(1, 5)
    constant = 8 / np.sqrt(3)
    expected = [[4, 3, 8 / 3, 2], constant / np.sqrt(T), np.full(4, 8 / 3)]
    np.testing.assert_allclose(curves, expected)
    assert any("x 4.62, fitted from above" in text.get_text() for text in figure.axes[0].texts)
    assert path.exists()


def test_lower_orders_touch_it_from_below() -> None:
    result = make_result({"A": [[4.0, 2.0, 2.0, 0.0]]})  # totals 4, 6, 8, 8
    linear = {"needed": lambda T: T}
    figure = plot_orders(result, {"root": torch.sqrt}, lower=linear)
    curves = [line.get_ydata() for line in figure.axes[0].lines]
    np.testing.assert_allclose(curves[2], np.full(4, 2))  # 8 / 4
    told = [text.get_text() for text in figure.axes[0].texts]
    assert "needed\nx 2, fitted from below" in told
    assert "root\nx 4.62, fitted from above" in told
    alone = plot_orders(result, {}, lower=linear)
    assert len(alone.axes[0].lines) == 2


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_the_smallest_studies_can_be_drawn(tmp_path) -> None:
    result = make_result({"A": [[0.5]]})
    bounds = plot_bounds(result, {"twice": lambda T: 2 * T}, path=tmp_path / "a.png")
    assert_written(tmp_path / "a.png")
    lines = {line.get_label(): list(line.get_ydata()) for line in bounds.axes[0].lines}
    assert lines["A, mean of trials"] == lines[LARGEST] == [0.5]
    assert lines["twice"] == [2]
    orders = plot_orders(result, {"linear": lambda T: T}, path=tmp_path / "b.png")
    assert_written(tmp_path / "b.png")
    assert_curves(
        orders.axes[0], {"A": np.array([0.5]), "linear\nx 0.5, fitted from above": np.array([0.5])}
    )


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_regret_of_nothing_has_no_logarithm() -> None:
    nothing = make_result({"A": np.zeros((2, 3))})
    (axes,) = plot_bounds(nothing, {"linear": lambda T: T}).axes
    lines = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert np.isnan(lines["A, mean of trials"]).all()
    np.testing.assert_array_equal(lines["linear"], [1, 2, 3])
    low, high = axes.get_ylim()
    assert 0 < low <= 1
    assert high >= 3


def test_bad_input() -> None:
    result = random_result({"A": 1.0}, 2, 5)
    with pytest.raises(ValueError, match="bounds is empty"):
        plot_bounds(result, {})
    with pytest.raises(ValueError, match="no strategy 'B'; it has A"):
        plot_bounds(result, {"linear": lambda T: T}, "B")
