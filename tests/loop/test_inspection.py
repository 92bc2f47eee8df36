"""What a loop shows: a table, words, a picture."""

import itertools
import math
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BOX, GRID, QUICK, STRATEGIES, WITH_CONTEXT, made
from loop.loops import measured as answered
from loop.test_units import HOUR, MACHINE, START, machine, measured
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.loop import Loop
from botorch_tv.loop.table import forgetting_text
from botorch_tv.strategies import Box, Choice, Float

LATER = START + 8 * HOUR


def night() -> Loop:
    """A night with a failure, and a measurement that nobody suggested."""
    loop = machine(pending=2)
    for t in range(6):
        suggestion = loop.ask(now=START + t * HOUR)
        loop.tell(measured(suggestion.point, t), ok=t != 3, noise=0.04 if t == 2 else None)
    loop.observe({"temperature": 41, "rate": 0.01, "layers": 3}, 0.75, time=START + HOUR / 2)
    return loop


def test_the_table_is_the_log_in_its_own_units() -> None:
    loop = night()
    frame = loop.table()
    names = ["number", *MACHINE, "time", "y", "ok", "noise", "mean", "sd", "reset"]
    assert list(frame.columns) == names
    assert frame["number"].tolist() == [1, -1, 2, 3, 4, 5, 6]
    assert frame["time"][1] == START + timedelta(minutes=30)
    own = frame.iloc[1]
    assert (own["temperature"], own["rate"], own["layers"], own["y"]) == (41, 0.01, 3, 0.75)
    assert math.isnan(own["mean"])
    assert frame["ok"].tolist() == [True] * 4 + [False] + [True] * 2
    assert frame["y"].isna().tolist() == (~frame["ok"]).tolist()
    assert frame["noise"].tolist() == [0.01] * 3 + [0.04] + [0.01] * 3
    np.testing.assert_array_equal(frame["y"], loop.history.y.numpy())
    suggestion = loop.ask(now=LATER)
    loop.tell(0.5)
    newest = loop.table().iloc[-1]
    assert (newest["mean"], newest["sd"]) == (suggestion.mean, suggestion.sd)


def test_tables_without_names() -> None:
    loop = made(("trigger", "grid"))
    assert list(loop.table().columns) == ["number", "x0", "x1", *loop.table().columns[3:]]
    assert len(loop.table()) == 0
    for t in range(16):
        loop.tell(answered(loop.ask().point, t))
    frame = loop.table()
    np.testing.assert_array_equal(frame[["x0", "x1"]], loop.history.X.numpy())
    np.testing.assert_array_equal(frame["reset"], loop.history.reset.numpy())
    assert frame["reset"].any()
    last = frame[frame["reset"]]["time"].iloc[-1]
    assert f"the last at time {last:g}" in loop.describe()
    there = Loop(STRATEGIES["Markov"](), WITH_CONTEXT)
    there.observe([0.5, 0.5], 1.0, context=[0.25])
    assert there.table()["context0"].tolist() == [0.25]
    assert "Best setting" not in there.describe()
    assert "Best setting" in there.describe(context=[0.3])


@pytest.mark.parametrize("name", ["number", "time", "y", "ok", "noise", "mean", "sd", "reset"])
def test_a_parameter_called_like_a_column(name: str, tmp_path: Path) -> None:
    """One of them was lost: under ``time`` stood what was set, or when, but not both."""
    loop = Loop({name: (10.0, 20.0), "speed": (0.0, 1.0)})
    points = []
    for now in range(3):
        points.append(loop.ask(now=now).point)
        loop.tell(100.0 + now, ok=now != 1)
    frame = loop.table()
    column = f"{name} (parameter)"
    fixed = ["time", "y", "ok", "noise", "mean", "sd", "reset"]
    assert list(frame.columns) == ["number", column, "speed", *fixed]
    assert frame["number"].tolist() == [1, 2, 3]
    assert frame["time"].tolist() == list(range(3))
    assert frame["y"].tolist()[::2] == [100.0, 102.0]
    assert frame[column].tolist() == [one[name] for one in points]
    figure = loop.plot(tmp_path / "it.png", now=3)
    drawn = [line for axes in figure.axes for line in axes.get_lines()]
    chosen = [one[name] for place, one in enumerate(points) if place != 1]
    assert any(np.array_equal(line.get_ydata(), chosen) for line in drawn)


def test_a_parameter_called_like_the_context_of_a_file() -> None:
    """Its loop was saved, and could not be loaded."""
    with pytest.raises(ValueError, match=r"a parameter is called '\(context\)', .* another name"):
        Loop({"(context)": (0.0, 1.0)})


def test_the_best_point_in_words_is_that_of_the_posterior() -> None:
    loop = night()
    loop.ask(now=LATER)
    best = loop.recommend(now=LATER)
    posterior = loop.posterior(best, now=LATER)
    mean, sd = float(posterior.mean), float(posterior.variance.sqrt())
    told = loop.describe(now=LATER)
    assert f"temperature {best['temperature']:.6g}" in told
    low, high = f"{mean - 2 * sd:#.4g}", f"{mean + 2 * sd:#.4g}"
    assert f"posterior mean {mean:#.4g}, ± 2 sd: {low} to {high}." in told
    assert "7 measurements from time 2026-03-28 20:00:00+00:00 to 2026-03-29 01:00" in told
    assert "1 failed; open: 7 at temperature" in told
    assert "No measurements yet." in machine().describe()


def test_how_fast_it_forgets_is_the_textbooks() -> None:
    """(1 - ε)^(age/2) = 1/2; 1/√(1 + σ² age) = 1/2; γ^age = 1/2; (1 + age)^-α ..."""

    def said(age: float) -> str:
        return f"{age:.3g} h"

    markov = forgetting_text(Markov(0.05), Static(), "hours")
    assert said(2 * math.log(0.5) / math.log(0.95)) in markov
    assert said(3 / 0.2) in forgetting_text(Wiener(0.2), Static(), "hours")
    weights = forgetting_text(Static(), ExponentialWeights(0.9), "hours")
    assert said(math.log(0.5) / math.log(0.9)) in weights
    assert "noise doubling time" in forgetting_text(Static(), UncertaintyInjection(1.0), "")
    assert forgetting_text(Static(), Static(), "") == ""


def test_what_was_learned_is_said() -> None:
    loop = made(("learning", "box"))
    for t in range(8):
        loop.observe([0.5, 0.0], math.cos(t))
    decay = loop.state.basis.decay  # type: ignore[union-attr]
    told = loop.describe()
    age = 2 * math.log(0.5) / math.log(1 - float(decay.value("epsilon")))
    assert f"correlation half-life {age:.3g}" in told


def test_the_picture_shows_measurements_and_slices(tmp_path: Path) -> None:
    loop = night()
    figure = loop.plot(tmp_path / "night.png", now=LATER)
    assert (tmp_path / "night.png").stat().st_size > 10_000
    assert len(figure.axes) == 1 + 2 * len(MACHINE)
    best = loop.recommend(now=LATER)
    slices = {axes.get_xlabel(): axes for axes in figure.axes if axes.get_xlabel()}
    assert list(slices) == list(MACHINE)
    assert slices["rate"].get_xscale() == "log"
    assert slices["layers"].lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]  # type: ignore[union-attr]
    ticks = slices["layers"].get_xticks()
    assert len(ticks) >= 3
    assert all(tick.is_integer() for tick in ticks)  # there is no half a layer
    for name, axes in slices.items():
        line = axes.lines[0]
        points = [best | {name: value} for value in line.get_xdata()]
        want = loop.posterior(points, now=LATER).mean.squeeze(-1)
        got = torch.as_tensor(np.asarray(line.get_ydata()))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_pictures_of_grids_contexts_and_axes_of_ones_own() -> None:
    loop = made(("Markov", "grid"))
    with pytest.raises(InputDataError, match="nothing has been measured"):
        loop.plot()
    for t in range(4):
        loop.tell(answered(loop.ask().point, t))
    figure = loop.plot()
    assert len(figure.axes[2].lines[0].get_xdata()) == 6  # type: ignore[arg-type]
    assert len(GRID) == 36
    there = Loop(STRATEGIES["Markov"](), WITH_CONTEXT)
    there.observe([0.5, 0.5], 1.0, context=[0.25])
    assert len(there.plot().axes) == 3
    assert len(there.plot(context=[0.25]).axes) == 5
    own = Figure()
    axes = own.add_subplot()
    assert loop.plot(ax=axes) is own
    assert len(own.axes) == 1
    named = Loop(STRATEGIES["Markov"](), Box({"a": (0, 1)}, search=QUICK))
    named.observe({"a": 0.5}, 1.0)
    assert len(named.plot().axes) == 3
    assert BOX.dim == 2


def test_the_legend_hides_no_measurement() -> None:
    figure = night().plot(now=LATER)
    figure.draw_without_rendering()
    values = figure.axes[0]
    legend = values.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert box.y0 >= values.get_window_extent().y1
    assert box.x0 > values._left_title.get_window_extent().x1  # type: ignore[attr-defined]
    assert box.x1 <= figure.bbox.x1


def test_no_belief_is_drawn_before_there_is_one() -> None:
    loop = Loop({"a": (0, 1)})
    for t in range(3):
        loop.observe({"a": 0.3 * t}, float(t))
    assert len(loop.plot().axes) == 2
    loop.observe({"a": 1.0}, 1.0)
    assert len(loop.plot().axes) == 3


def test_what_lies_between_choices_is_not_drawn_and_logarithmic_ticks_are_apart() -> None:
    loop = Loop({"kind": Choice("sand", "salt"), "rate": Float(0.2, 5, log=True)})
    for n in range(6):
        loop.observe({"kind": ("sand", "salt")[n % 2], "rate": 0.3 + 0.7 * n}, float(n))
    figure = loop.plot()
    figure.draw_without_rendering()
    slices = {axes.get_xlabel(): axes for axes in figure.axes if axes.get_xlabel()}
    assert slices["kind"].lines[0].get_linestyle() == "None"
    assert not [one for one in slices["kind"].collections if isinstance(one, PolyCollection)]
    low, high = slices["rate"].get_xlim()
    ticks = [
        one for one in slices["rate"].get_xticklabels() if low <= one.get_position()[0] <= high
    ]
    assert [one.get_text() for one in ticks] == ["0.2", "0.5", "1", "2", "5"]
    boxes = [one.get_window_extent() for one in ticks]
    assert all(first.x1 < second.x0 for first, second in itertools.pairwise(boxes))
    for axes in figure.axes:
        title = axes._left_title.get_window_extent()  # type: ignore[attr-defined]
        assert title.x1 <= figure.bbox.x1
