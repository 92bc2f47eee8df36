"""Pictures of bounds over regret."""

import numpy as np
import pytest
import torch
from helpers.pictures import assert_curves, assert_written
from helpers.synthetic_results import make_result, random_result
from numpy.testing import assert_allclose

from botorch_tv.theory.plots import plot_bounds, plot_mismatch, plot_orders

LARGEST = "$t$ × largest regret of a round"
TOTALS = make_result({"A": [[4.0, 2.0, 2.0, 0.0]]})  # 4, 6, 8, 8


def lines_of(figure) -> dict:
    return {line.get_label(): line.get_ydata() for line in figure.axes[0].lines}


@pytest.mark.full
def test_bounds_are_drawn_over_cumulative_regret(tmp_path) -> None:
    result = make_result({"A": [[2, 4, 1], [4, 0, 5]], "B": [[1, 1, 1], [1, 1, 1]]})
    figure = plot_bounds(result, {"ten each": lambda T: 10 * T}, "A", tmp_path / "in" / "a.png")
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    lines = lines_of(figure)
    assert_allclose(lines["A, mean of trials"], [3, 5, 8])
    assert_allclose(lines["ten each"], [10, 20, 30])
    assert_allclose(lines[LARGEST], [5, 10, 15])
    thin = [line.get_ydata() for line in axes.lines if line.get_label().startswith("_")]
    assert_allclose(thin, [[2, 6, 7], [4, 4, 9]])
    assert_written(tmp_path / "in" / "a.png")


def test_orders_touch_the_second_half_from_above_and_below() -> None:
    orders, T = {"root": torch.sqrt, "linear": lambda T: T}, np.arange(1, 5)
    figure = plot_orders(TOTALS, orders, lower={"needed": lambda T: T})
    curves = [line.get_ydata() for line in figure.axes[0].lines]
    root = 8 / np.sqrt(3) / np.sqrt(T)
    assert_allclose(curves, [[4, 3, 8 / 3, 2], root, np.full(4, 8 / 3), np.full(4, 2)])
    names = [text.get_text() for text in figure.axes[0].texts]
    assert "needed\nx 2, fitted from below" in names
    assert "root\nx 4.62, fitted from above" in names
    assert len(plot_orders(TOTALS, {}, lower={"needed": lambda T: T}).axes[0].lines) == 2


@pytest.mark.full
@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_the_smallest_studies_can_be_drawn(tmp_path) -> None:
    result = make_result({"A": [[0.5]]})
    lines = lines_of(plot_bounds(result, {"twice": lambda T: 2 * T}))
    assert (lines["A, mean of trials"], lines[LARGEST], lines["twice"]) == (0.5, 0.5, 2)
    orders = plot_orders(result, {"linear": lambda T: T}, path=tmp_path / "b.png")
    assert_written(tmp_path / "b.png")
    half = np.array([0.5])
    assert_curves(orders.axes[0], {"A": half, "linear\nx 0.5, fitted from above": half})


@pytest.mark.filterwarnings("error", "ignore::DeprecationWarning")
def test_regret_of_nothing_has_no_logarithm() -> None:
    figure = plot_bounds(make_result({"A": np.zeros((2, 3))}), {"linear": lambda T: T})
    assert np.isnan(lines_of(figure)["A, mean of trials"]).all()
    np.testing.assert_array_equal(lines_of(figure)["linear"], [1, 2, 3])
    low, high = figure.axes[0].get_ylim()
    assert 0 < low <= 1
    assert high >= 3


def test_bad_input() -> None:
    result = random_result({"A": 1.0}, 2, 5)
    with pytest.raises(ValueError, match="bounds is empty"):
        plot_bounds(result, {})
    with pytest.raises(ValueError, match="no strategy 'B'; it has A"):
        plot_bounds(result, {"linear": lambda T: T}, "B")


@pytest.mark.full
def test_mismatch_with_its_trivial_bound(tmp_path) -> None:
    """[ET] Figure 7: improved bounds lie below both others, and reach the trivial bound."""
    figure = plot_mismatch(tmp_path / "m.png", epsilons=(0.01, 0.3), noise=0.5, longest=60)
    assert_written(tmp_path / "m.png")
    lines, N = lines_of(figure), np.arange(1, 61)
    trivial = np.sqrt(3 / 0.5 + 1 / 0.25) * N
    assert_allclose(lines["trivial bound"], trivial)
    for epsilon in (0.01, 0.3):
        improved, previous = (lines[f"ε = {epsilon:g}, [{paper}]"] for paper in ("ET", "B16"))
        assert_allclose(improved, trivial * np.sqrt(1 - (1 - epsilon) ** (N / 2)))
        assert_allclose(previous, np.sqrt(10 * N**3 * epsilon))
        assert (improved < previous).all()
        assert (improved < trivial).all()
    assert improved[-1] == pytest.approx(trivial[-1], rel=1e-4)
    assert previous[-1] > 4 * trivial[-1]
