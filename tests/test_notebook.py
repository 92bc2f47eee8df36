"""What objects look like in a notebook."""

import sys

import pytest
from gpytorch.kernels import RBFKernel

from botorch_tv import Grid, Loop, gp_ucb, run_study, tv_gp_ucb
from botorch_tv.simulation import MarkovWorld


def played(rounds: int = 4) -> Loop:
    ranges = {"temperature": (20, 80), "a<b": (0, 1)}
    loop = Loop(ranges, constraints=["pressure <= 5"], objective="yield")
    for hour in range(rounds):
        point = loop.ask(now=hour).point
        loop.tell({"yield": -point["temperature"], "pressure": 7 * point["a<b"]})
    return loop


def test_loop_shows_its_summary_its_table_and_its_picture() -> None:
    loop = played()
    shown = loop._repr_html_()
    assert "a<b" not in shown
    assert all(part in shown for part in ("a&lt;b", "Best setting now", "<table", "data:image/png"))
    assert "Best setting" not in Loop({"x": (0, 1)})._repr_html_()


def test_showing_changes_no_choice() -> None:
    loop, other = played(), played()
    loop._repr_html_()
    assert loop.ask(now=5).point == other.ask(now=5).point


def test_loop_shows_text_without_pandas_and_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "matplotlib", "botorch_tv.loop.plots", "botorch_tv.drawing"):
        monkeypatch.setitem(sys.modules, library, None)
    shown = played()._repr_html_()
    assert "Best setting now" in shown
    assert not any(part in shown for part in ("<table", "<img"))


def test_suggestion_is_a_table_of_its_point() -> None:
    loop = played()
    suggestion = loop.ask(now=9)
    shown = suggestion._repr_markdown_()
    assert f"| temperature | `{suggestion.point['temperature']}` |" in shown
    assert "| probability of keeping the limits | " in shown
    first = Loop([(0.0, 1.0)]).ask(now=0)._repr_markdown_()
    assert "| x0 | " in first
    assert "mean" not in first


def test_strategy_is_a_table_of_its_parts() -> None:
    shown = tv_gp_ucb(kernel=RBFKernel(), noise=0.1, epsilon=0.03)._repr_markdown_()
    assert all(part in shown for part in ("| noise | `0.1` |", "| kernel | `RBFKernel(length"))


def test_result_shows_its_verdict_its_summary_and_its_picture() -> None:
    domain, kernel = Grid.regular(points=4, dim=1), RBFKernel()
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.03, noise=0.02)
    result = run_study(world, {"GP": gp_ucb(kernel=kernel, noise=0.02)}, trials=2, horizon=3)
    shown = result._repr_html_()
    assert all(part in shown for part in ("Only GP was run", "± s.e.", "data:image/png"))
