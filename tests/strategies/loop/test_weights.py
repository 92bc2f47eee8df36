"""A loop draws what it came to believe, measurement by measurement."""

import math
from datetime import UTC, datetime, timedelta

import pytest
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from matplotlib.figure import Figure
from pictures import assert_written

from botorch_tv import Box, Loop, adaptive_gp_ucb, gp_ucb
from botorch_tv.inference.mixture.bank import Bank

BANK = Bank(
    rates=(0.0, 0.19), hazards=(0.0, 0.5), lengthscales=(0.3,), noise_ratios=(0.04,), features=24
)
START = datetime(2026, 3, 1, 22, tzinfo=UTC)
TABLE = [([0.1], 3.0), ([0.8], 5.0), ([0.4], 4.0), ([0.6], 4.6), ([0.2], 3.3), ([0.9], 4.9)]


def loop_of(rows) -> Loop:
    loop = Loop(adaptive_gp_ucb(bank=BANK, starts=3), Box([(0.0, 1.0)]))
    for row in rows:
        point, y = TABLE[row]
        loop.observe(point, y, time=START + timedelta(hours=2 * row))
    return loop


def test_curves_are_the_weights_after_each_measurement(tmp_path) -> None:
    loop = loop_of(range(6))
    figure = loop.plot_weights(tmp_path / "weights.png")
    assert_written(tmp_path / "weights.png")
    player = loop.strategy
    for told in range(1, 7):
        before = loop_of(range(told)).state
        for axes, name in zip(figure.axes, ("rate", "hazard", "lengthscale", "noise_ratio")):
            for number, line in enumerate(axes.lines):
                wanted = float(player.marginals(before)[name][number])
                assert line.get_ydata()[told - 1] == pytest.approx(wanted, abs=1e-12)
        assert figure.axes[4].lines[0].get_ydata()[told - 1] == float(player.jump(before))
    said = [[one.get_text() for one in axes.get_legend().get_texts()] for axes in figure.axes[:4]]
    # Two hours between measurements; half is gone after 2 · 2 ln 2 / -ln 0.81.
    half = 4 * math.log(2) / -math.log(0.81)
    assert said == [["never", f"{half:.3g}"], ["never", f"{2 / math.log(2):.3g}"], ["0.3"], ["20%"]]
    assert "hours" in figure.axes[0].get_title(loc="left")


def test_on_axes_of_ones_own_are_the_rates() -> None:
    loop, figure = loop_of(range(4)), Figure()
    axes = figure.subplots()
    assert loop.plot_weights(ax=axes) is figure
    assert figure.axes == [axes]
    for mine, wanted in zip(axes.lines, loop.plot_weights().axes[0].lines, strict=True):
        assert list(mine.get_ydata()) == list(wanted.get_ydata())
        assert mine.get_label() == wanted.get_label()
    for plot in (loop.plot_weights, loop.plot):
        with pytest.raises(ValueError, match="path and ax are both given"):
            plot("both.png", ax=axes)


def test_a_late_answer_is_drawn_at_its_place() -> None:
    late, plain = loop_of([0, 1, 2, 4, 5, 3]), loop_of(range(6))
    for one, other in zip(late.plot_weights().axes, plain.plot_weights().axes):
        for line, wanted in zip(one.lines, other.lines, strict=True):
            assert list(line.get_xdata()) == list(wanted.get_xdata())
            assert list(line.get_ydata()) == pytest.approx(list(wanted.get_ydata()), abs=1e-12)


def test_rates_of_another_clock_are_not_drawn_as_those_of_this_one() -> None:
    """Three minutes between the first few, then hours: after the eighth all is learned anew."""
    loop, minutes = Loop(adaptive_gp_ucb(bank=BANK, starts=3), Box([(0.0, 1.0)])), [0, 3, 6]
    for number, minute in enumerate([*minutes, *(120 * more for more in range(1, 7))]):
        point, y = TABLE[number % 6]
        loop.observe(point, y + 0.1 * number, time=START + timedelta(minutes=minute))
        if number == 6:
            before = loop.plot_weights()
            assert before.axes[0].get_legend().get_texts()[1].get_text() == "0.329"
    assert float(loop.strategy.step(loop.state)) == 2.0
    axes = loop.plot_weights().axes
    half = 4 * math.log(2) / -math.log(0.81)
    assert axes[0].get_legend().get_texts()[1].get_text() == f"{half:.3g}"
    for number, one in enumerate(axes[:4]):
        anew = "found anew" in one.get_title(loc="left")
        assert anew == (number < 2)
        for line in one.lines:
            blank = [math.isnan(y) for y in line.get_ydata()]
            assert blank == ([False] * 2 + [True] * 5 + [False] * 2 if anew else [False] * 9)


def test_a_loop_from_a_file_knows_them_too(tmp_path) -> None:
    loop = loop_of(range(5))
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", adaptive_gp_ucb(bank=BANK, starts=3))
    curves = [
        [list(line.get_ydata()) for axes in one.plot_weights().axes for line in axes.lines]
        for one in (loop, again)
    ]
    assert curves[0] == curves[1]


def test_who_weighs_nothing_is_told_so() -> None:
    with pytest.raises(InputDataError, match="nothing has been measured"):
        loop_of([]).plot_weights()
    told = Loop(gp_ucb(kernel=RBFKernel().double(), noise=0.1), Box([(0.0, 1.0)]))
    with pytest.raises(InputDataError, match="no weights to plot"):
        told.plot_weights()
