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


@pytest.mark.parametrize("mark", [".", ","])
def test_thousands_beside_smaller_numbers(tmp_path, mark):
    rows = [[f"{value:,}".replace(",", mark) for value in row] for row in WHOLE * 41]
    with pytest.raises(ValueError, match=r"'\d[.,]\d{3}' may have a thousands separator"):
        load_panel(table(tmp_path, NAMES, rows, ";"))


@pytest.mark.parametrize("mark", [".", ","])
def test_three_decimals_are_read(tmp_path, mark):
    values = np.round(np.abs(RNG.normal(size=(12, 2))), 3)
    rows = [[f"{a:.3f}".replace(".", mark), f"{b:g}".replace(".", mark)] for a, b in values]
    assert np.array_equal(load_panel(table(tmp_path, ["a", "b"], rows, ";")).values, values)


def test_underscores_in_numbers(tmp_path):
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
    rows = [[cell, *row] for cell, row in zip(cells, READ)]
    panel = load_panel(table(tmp_path, ["date", *NAMES], rows))
    wanted = np.datetime64(first or "2026-03-01T23:55", "us") + np.arange(12) * np.timedelta64(
        1, step
    )
    assert np.array_equal(panel.times, wanted)


def test_counts_are_not_dates(tmp_path):
    for first in (1_770_000_000, 20_260_000):
        rows = [[first + number, *row] for number, row in enumerate(READ)]
        panel = load_panel(table(tmp_path, ["time", *NAMES], rows))
        assert np.array_equal(panel.times, first + np.arange(12.0))


def test_two_arms_with_the_same_name(tmp_path):
    panel = load_panel(table(tmp_path, ["a", "a", "b", "c"], READ))
    with pytest.raises(ValueError, match="2 arms are called 'a'; give names of single arms"):
        panel.select(["b", "a"])
    assert np.array_equal(panel.select([0, "b"]).values, READ[:, [0, 2]])
    assert isinstance(panel, Panel)


@pytest.mark.parametrize("zone", ["Z", "+01:00", "-0330", ":30.5+01"])
def test_dates_with_and_without_a_zone(tmp_path, zone):
    rows = [[f"2026-03-01T0{hour}:00{zone}", hour**2] for hour in range(3)]
    assert load_panel(table(tmp_path, ["time", "a"], rows)).times is not None
    rows[1][0] = "2026-03-01T01:00"
    with pytest.raises(
        ValueError, match=r"line 3: '2026-03-01T01:00' has no time zone, but others have"
    ):
        load_panel(table(tmp_path, ["time", "a"], rows))
