"""Tables that may be read in two ways: each was read in the wrong one without a word."""

import numpy as np
import pytest

from botorch_tv.simulation.panels import Panel, load_panel

RNG = np.random.default_rng(0)
READ = np.round(20 + RNG.normal(size=(12, 4)), 2)
WHOLE = RNG.integers(0, 40, size=(12, 4))
NAMES = ["a", "b", "c", "d"]


def table(tmp_path, head, rows, between=","):
    lines = [between.join(map(str, line)) for line in ([head] if head else []) + list(rows)]
    path = tmp_path / "it.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "rows",
    [WHOLE, WHOLE.cumsum(1) + np.arange(4), np.arange(8).reshape(4, 2), WHOLE[:, :2]],
    ids=["whole", "all rise", "two columns", "two"],
)
def test_readings_without_names_are_read(tmp_path, rows):
    assert np.array_equal(load_panel(table(tmp_path, None, rows), times="").values, rows)


@pytest.mark.parametrize("mark", [".", ","])
def test_thousands_beside_smaller_numbers(tmp_path, mark):
    """1,250 was 1.25, and 980 beside it 980."""
    rows = [[f"{value:,}".replace(",", mark) for value in row] for row in WHOLE * 41]
    with pytest.raises(ValueError, match=r"'\d[.,]\d{3}' may have a thousands separator"):
        load_panel(table(tmp_path, NAMES, rows, ";"))


@pytest.mark.parametrize("mark", [".", ","])
def test_three_decimals_are_read(tmp_path, mark):
    """In a column of such alone, or beginning with a zero, they can be nothing else."""
    values = np.round(np.abs(RNG.normal(size=(12, 2))), 3)
    rows = [[f"{a:.3f}".replace(".", mark), f"{b:g}".replace(".", mark)] for a, b in values]
    assert np.array_equal(load_panel(table(tmp_path, ["a", "b"], rows, ";")).values, values)


def test_numbers_as_python_has_them(tmp_path):
    """1_0 was 10."""
    with pytest.raises(ValueError, match=r"line 2: '1_0' is not a number"):
        load_panel(table(tmp_path, NAMES, [["1_0", *row[1:]] for row in READ]))


@pytest.mark.parametrize(
    ("cells", "first", "step"),
    [
        ([20260327 + n for n in range(5)] + [20260401 + n for n in range(7)], "2026-03-27", "D"),
        ([2026030112 + n for n in range(12)], "2026-03-01T12", "h"),
        ([202603012355 + n for n in range(5)] + [202603020000 + n for n in range(7)], None, "m"),
    ],
    ids=["days", "hours", "minutes"],
)
def test_dates_that_look_like_numbers(tmp_path, cells, first, step):
    """From 20260331 to 20260401 were 70 days."""
    rows = [[cell, *row] for cell, row in zip(cells, READ)]
    panel = load_panel(table(tmp_path, ["date", *NAMES], rows))
    wanted = np.datetime64(first or "2026-03-01T23:55", "us") + np.arange(12) * np.timedelta64(
        1, step
    )
    assert np.array_equal(panel.times, wanted)


def test_counts_that_are_no_dates(tmp_path):
    """Seconds since 1970, and a number of eight digits with a month 0."""
    for first in (1_770_000_000, 20_260_000):
        rows = [[first + number, *row] for number, row in enumerate(READ)]
        panel = load_panel(table(tmp_path, ["time", *NAMES], rows))
        assert np.array_equal(panel.times, first + np.arange(12.0))


def test_two_arms_of_one_name(tmp_path):
    """The last of them was taken."""
    panel = load_panel(table(tmp_path, ["a", "a", "b", "c"], READ))
    with pytest.raises(ValueError, match="2 arms are called 'a'; give names of single arms"):
        panel.select(["b", "a"])
    assert np.array_equal(panel.select([0, "b"]).values, READ[:, [0, 2]])
    assert isinstance(panel, Panel)


@pytest.mark.parametrize("zone", ["Z", "+01:00", "-0330", ":30.5+01"])
def test_dates_with_and_without_a_zone(tmp_path, zone):
    """Those without were taken for Greenwich's, an hour or more off beside the others."""
    rows = [[f"2026-03-01T0{hour}:00{zone}", hour**2] for hour in range(3)]
    assert load_panel(table(tmp_path, ["time", "a"], rows)).times is not None
    rows[1][0] = "2026-03-01T01:00"
    with pytest.raises(
        ValueError, match=r"line 3: '2026-03-01T01:00' has no time zone, but others have"
    ):
        load_panel(table(tmp_path, ["time", "a"], rows))


def test_dates_that_end_like_a_zone(tmp_path):
    rows = [["2026-03-01 00", 1], ["2026-03-01 01", 2], ["2026-03-02 00", 3]]
    assert len(load_panel(table(tmp_path, ["time", "a"], rows)).times) == 3
