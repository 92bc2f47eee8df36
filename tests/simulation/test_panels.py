import gzip
from datetime import datetime

import numpy as np
import pytest

from botorch_tv.simulation.panels import Panel, load_panel, make_panel

GAP = np.nan


def written(folder, text: str, name: str = "panel.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def rows(*columns, head="", between=","):
    """A table of these columns."""
    return head + "".join(between.join(map(str, row)) + "\n" for row in zip(*columns))


def test_largest_array_with_its_trailing_axes_flattened(tmp_path):
    field = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    np.savez(
        tmp_path / "a.npz",
        small=np.eye(2),
        long=np.arange(99),
        field=field,
        names=np.full((50, 50), "text"),
    )
    panel = load_panel(tmp_path / "a.npz")
    np.testing.assert_array_equal(panel.values, field.reshape(4, 6))
    assert panel.values.dtype == np.float64
    assert panel.arms == ("0,0", "0,1", "1,0", "1,1", "2,0", "2,1")
    assert panel.times is None
    assert load_panel(tmp_path / "a.npz", key="small").arms == ("0", "1")


@pytest.mark.parametrize("key", ["missing", "names", "long", "things"])
def test_bad_keys(tmp_path, key):
    arrays = {"field": np.eye(3), "names": np.full((2, 2), "x"), "long": np.arange(9)}
    np.savez(tmp_path / "a.npz", **arrays, things=np.array([[1, None]], dtype=object))
    with pytest.raises(ValueError, match=f"no numeric array '{key}' .* suitable arrays: field"):
        load_panel(tmp_path / "a.npz", key=key)


def gridded(folder, **changes):
    """Values 100 hour + 10 row + column."""
    hour, row, column = np.indices((4, 5, 3))
    arrays = {
        "field": 100 * hour + 10 * row + column,
        "lat": np.linspace(60, 58, 5),
        "lon": np.array([-1, 0, 2]),
        "hours": np.array([0, 1, 2, 5]),
        "dates": np.array(["2019-03-01", "2019-03-02", "2019-03-03", "2019-03-09"], "M8[D]"),
        "things": np.array([1, None, "x", 2, 3], dtype=object),
    }
    np.savez(folder / "grid.npz", **(arrays | changes))
    return folder / "grid.npz"


def test_coordinates_and_times_from_arrays(tmp_path):
    file = gridded(tmp_path)
    panel = load_panel(file, axes=("lat", "lon"), times="hours")
    np.testing.assert_array_equal(panel.times, [0, 1, 2, 5])
    assert panel.coordinates.shape == (15, 2)
    for arm, (name, place) in enumerate(zip(panel.arms, panel.coordinates)):
        row, column = map(int, name.split(","))
        assert tuple(place) == (60 - 0.5 * row, (-1, 0, 2)[column])
        np.testing.assert_array_equal(panel.values[:, arm], 100 * np.arange(4) + 10 * row + column)
    dated = load_panel(file, times="dates")
    assert dated.times[3] == np.datetime64("2019-03-09")
    assert dated.coordinates is None
    coarse = load_panel(file, axes=("lat", "lon"), every=2)
    assert coarse.arms == ("0,0", "0,2", "2,0", "2,2", "4,0", "4,2")
    np.testing.assert_array_equal(coarse.values[1], [100, 102, 120, 122, 140, 142])
    np.testing.assert_array_equal(coarse.coordinates[:3], [[60, -1], [60, 2], [59, -1]])
    alone = load_panel(file, every=99)
    np.testing.assert_array_equal(alone.values, [[0], [100], [200], [300]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": ["lat"]}, "axes are lat, but 'field' has 2 axes"),
        ({"axes": ("lon", "lat")}, r"no array 'lon' of 5 numbers; .* lon int64 \(3,\)"),
        ({"axes": ("things", "lon")}, "no array 'things' of 5 numbers"),
        ({"axes": ("dates", "lon")}, "no array 'dates' of 5 numbers"),
        ({"times": "lat"}, "no array 'lat' of 4 numbers or dates"),
        ({"every": 0}, "every is 0"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        load_panel(gridded(tmp_path), **options)
    table = written(tmp_path, "a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"single table|every is 0|no single column"):
        load_panel(table, **options)


def test_bad_files(tmp_path):
    np.savez(tmp_path / "line.npz", a=np.arange(5))
    np.savez(tmp_path / "flipped.npz", a=np.arange(40.0).reshape(10, 4))
    flipped = bytearray((tmp_path / "flipped.npz").read_bytes())
    flipped[200] ^= 255
    for name, content, message in (
        ("panel.xlsx", b"", r"must end in .npz, .csv, .csv.gz"),
        ("a.npz", b"not an archive", "damaged"),
        ("flipped.npz", flipped, "is damaged"),
        ("line.npz", (tmp_path / "line.npz").read_bytes(), "no numeric array .*arrays: none"),
        ("b.csv.gz", gzip.compress(b"1,2\n" * 1000)[:-9], "b.csv.gz is not a table"),
        ("c.csv", b"\xff\xfe\x00", "c.csv is not a table"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_panel(tmp_path / name)


def test_table_with_dates_and_gaps(tmp_path):
    text = "a,Date,b\n1.5,2019-03-01,\n-2e3,2019-03-02,7\nNaN,2019-03-05,NA\n"
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(text.encode()))
    for path in (written(tmp_path, text, "PANEL.CSV"), tmp_path / "b.csv.gz"):
        panel = load_panel(path)
        np.testing.assert_array_equal(panel.values, [[1.5, GAP], [-2000, 7], [GAP, GAP]])
        assert panel.arms == ("a", "b")
        wanted = np.array(["2019-03-01", "2019-03-02", "2019-03-05"], "datetime64[D]")
        np.testing.assert_array_equal(panel.times, wanted)


@pytest.mark.parametrize(
    ("text", "values", "arms"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]], ("0", "1")),
        ("2020-01-01,1\n2020-01-02,2\n", [[1], [2]], ("0",)),
        ("\ufeffx,y\r\n1,2\r\n\r\n3,4\r\n", [[1, 2], [3, 4]], ("x", "y")),
        ("time,a\n0.5,1\n2,3\n", [[1], [3]], ("a",)),
        (",a\n0,1\n1,3\n", [[1], [3]], ("a",)),
        ("773869,767541\n64.4,67.6\n62,66.5\n", [[64.4, 67.6], [62, 66.5]], ("773869", "767541")),
        ("64,65\n62,66\n", [[64, 65], [62, 66]], ("0", "1")),
        ("day,a\n12/2/2020,1\n13/2/2020,3\n", [[1], [3]], ("a",)),
        ("when,a\nMar 1 2019,1\nMar 2 2019,3\n", [[1], [3]], ("a",)),
    ],
)
def test_headers_and_times_are_recognised(tmp_path, text, values, arms):
    panel = load_panel(written(tmp_path, text))
    np.testing.assert_array_equal(panel.values, values)
    assert panel.arms == arms


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a table"),
        ("a,b\n", "no readings; add readings below it"),
        ("a,b\n1,2,3\n", "is not a table .*line 2"),
        ("a,b\n1,2\n3,cold\n", "line 3: 'cold' is not a number"),
        ("a,b\n1,inf\n", r"\[row, arm\] \[\[0, 1\]\] are infinite"),
        ("d,b\n2020-01-01,1\nlater,2\n", "line 3: 'later' is not a date"),
        ("d,b\n2020-01-01,1\n1/2/2020,2\n", "line 3: '1/2/2020' .* differs from '2020-01-01'"),
        ("d,b\n01/02/2020,1\n02/02/2020,2\n", "line 2: '01/02/2020' may begin with"),
        ("d;b\n02.02.2020;1\n03.02.2020;2\n", "line 3: '03.02.2020' may begin with"),
        ("d,b\n2020-01-02,1\n2020-01-01,2\n", "not after"),
        ("d,e,b\n2020-01-01,2020-01-01,1\n", "two columns of dates"),
        ("d\n2020-01-01\n", r"values have shape \(0,\)"),
        ("a;b\n1.234;2\n1,5;3\n", "line 2: '1.234' may have a thousands separator"),
        ("a;b\n1.234,5;2\n1,5;3\n", "line 2: '1.234,5' may have a thousands separator"),
        ("a;b\n1,640;2\n41;3\n", "'1,640' may have a thousands separator"),
        ("a;b\n1.640;2\n41;3\n", "'1.640' may have a thousands separator"),
        ("a,b\n1_0,2\n", "line 2: '1_0' is not a number"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_panel(written(tmp_path, text))


@pytest.mark.parametrize(
    ("dates", "first", "step"),
    [
        (("30/01/2020", "31/01/2020", "01/02/2020"), "2020-01-30", "D"),  # no thirtieth month
        (("1/30/2020", "1/31/2020", "2/1/2020"), "2020-01-30", "D"),
        (("2020/01/30", "2020/01/31", "2020/02/01"), "2020-01-30", "D"),
        (("2020-1-30", "2020-1-31", "2020-2-1"), "2020-01-30", "D"),
        (("30.01.2020 00:00", "31.01.2020 00:00", "01.02.2020 00:00"), "2020-01-30", "D"),
        (("30 Jan 2020", "31 Jan 2020", "1 Feb 2020"), "2020-01-30", "D"),
        (("2020/01/02",), "2020-01-02", "D"),
        (("2020/1/2",), "2020-01-02", "D"),
        (("2020-1-2",), "2020-01-02", "D"),
        (("2 Jan 2020",), "2020-01-02", "D"),
        (("Jan 2, 2020",), "2020-01-02", "D"),
        ((20260330, 20260331, 20260401), "2026-03-30", "D"),
        ((2026030122, 2026030123, 2026030200), "2026-03-01T22", "h"),
        ((202603012358, 202603012359, 202603020000), "2026-03-01T23:58", "m"),
    ],
)
def test_unambiguous_dates(tmp_path, dates, first, step):
    text = rows(dates, np.arange(len(dates)) + 0.5, head="date;a\n", between=";")
    wanted = np.datetime64(first, "us") + np.arange(len(dates)) * np.timedelta64(1, step)
    np.testing.assert_array_equal(load_panel(written(tmp_path, text)).times, wanted)


SHOWN = np.array([[1.5, 2.0], [-0.25, GAP]])


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1.5;2\n-0.25;\n",
        "a;b\n1,5;2\n-,25;NA\n",
        "a\tb\n1,5\t2,0\n-0,25\t\n",
        "a\tb\n1.5\t2.0\n-2.5e-1\tNaN\n",
        "\ufeffa;b\r\n1,5;2,0\r\n-2,5e-1;\r\n",
        '"a";"b"\n"1,5";"2"\n"-0,25";""\n',
    ],
)
def test_columns_between_semicolons_and_tabs(tmp_path, text):
    panel = load_panel(written(tmp_path, text))
    np.testing.assert_array_equal(panel.values, SHOWN)
    assert panel.arms == ("a", "b")


@pytest.mark.parametrize(("header", "name"), [("stamp,a,b\n", "stamp"), ("", "0")])
def test_times_in_numbers_are_named(tmp_path, header, name):
    stamps = 1000 + 60 * np.arange(9)
    file = written(tmp_path, rows(stamps, np.arange(9) % 3, np.arange(9) % 2, head=header))
    assert load_panel(file).times is None
    panel = load_panel(file, times=name)
    np.testing.assert_array_equal(panel.times, stamps)
    assert panel.values.shape == (9, 2)
    arm = load_panel(file, times="")
    assert arm.times is None
    np.testing.assert_array_equal(arm.values[:, 0], stamps)
    with pytest.raises(ValueError, match="no single column 'when' for times; its columns are"):
        load_panel(file, times="when")


@pytest.mark.parametrize("times", ["on", "due", ""])
def test_two_columns_of_dates(tmp_path, times):
    text = "on,due,a\n2020-01-01,2021-01-01,1\n2020-01-02,2021-01-05,2\n"
    with pytest.raises(ValueError, match=r"line 2: '202.-01-01' is not a number"):
        load_panel(written(tmp_path, text), times=times)


@pytest.mark.parametrize("mark", [".", ","])
def test_three_decimals(tmp_path, mark):
    values = np.round(np.abs(np.random.default_rng(0).normal(size=(12, 2))), 3)
    texts = [[f"{a:.3f}".replace(".", mark), f"{b:g}".replace(".", mark)] for a, b in values]
    path = written(tmp_path, rows(*zip(*texts), head="a;b\n", between=";"))
    np.testing.assert_array_equal(load_panel(path).values, values)


@pytest.mark.parametrize("first", [1_770_000_000, 20_260_000])
def test_counts_are_not_dates(tmp_path, first):
    counts = first + np.arange(12)
    panel = load_panel(written(tmp_path, rows(counts, range(12), head="time,a\n")))
    np.testing.assert_array_equal(panel.times, counts)


@pytest.mark.parametrize("zone", ["Z", "+01:00", "-0330", ":30.5+01"])
def test_dates_with_and_without_a_zone(tmp_path, zone):
    dates = [f"2026-03-01T0{hour}:00{zone}" for hour in range(3)]
    assert load_panel(written(tmp_path, rows(dates, range(3), head="time,a\n"))).times is not None
    dates[1] = "2026-03-01T01:00"
    with pytest.raises(ValueError, match=r"line 3: '2026-03-01T01:00' has no time zone, but"):
        load_panel(written(tmp_path, rows(dates, range(3), head="time,a\n")))


def daily(**changes):
    days = np.array(["2019-03-01", "2019-03-02", "2019-03-05", "2019-03-09"], "M8[D]")
    parts = {
        "values": np.arange(12.0).reshape(4, 3),
        "arms": ("a", "b", "c"),
        "times": days,
        "coordinates": np.array([[0.0, 1], [2, 3], [4, 5]]),
    }
    return Panel(**(parts | changes))


REFUSED = [
    (lambda: daily(values=np.zeros(3)), r"values have shape \(3,\)"),
    (lambda: daily(values=np.zeros((0, 3))), r"shape \(0, 3\)"),
    (lambda: daily(arms=("a",)), r"arms .* shape \(4, 3\); give 3"),
    (lambda: daily(values=np.diag([1, 1, np.inf, 1])[:, :3]), r"\[row, arm\] \[\[2, 2\]\]"),
    (lambda: daily(times=np.arange(2)), "times .*; give 4"),
    (lambda: daily(times=np.array([0, 2, 1, 3])), r"rows \[2\] are not after"),
    (lambda: daily(times=np.array([0, 1, 1, 3])), r"rows \[2\] are not after"),
    (lambda: daily(coordinates=np.zeros((4, 2))), "coordinates .*; give 3"),
    (lambda: daily().select(["d"]), "0 arms are called 'd'; give names of single .* from 0 to 2"),
    (lambda: daily().select([3]), "out of bounds"),
    (lambda: daily().select([]), r"values have shape \(4, 0\)"),
    (lambda: daily(arms=("a", "a", "b")).select(["b", "a"]), "2 arms are called 'a'; give names"),
    (lambda: daily().rows("2020"), r"values have shape \(0, 3\)"),
    (lambda: daily().rows("soon"), "soon"),
    (lambda: daily().rows(3), "integer"),
    (lambda: daily(times=None).rows("soon"), "soon"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused(call, message):
    with pytest.raises((ValueError, IndexError), match=message):
        call()


@pytest.mark.parametrize("arms", [["c", "a"], [2, 0], np.array([2, 0])])
def test_arms_by_name_and_number(arms):
    panel = daily().select(arms)
    assert panel.arms == ("c", "a")
    np.testing.assert_array_equal(panel.values, [[2, 0], [5, 3], [8, 6], [11, 9]])
    np.testing.assert_array_equal(panel.coordinates, [[4, 5], [0, 1]])
    np.testing.assert_array_equal(panel.times, daily().times)
    mixed = daily(arms=("a", "a", "b")).select([0, "b"])  # two have the same name
    np.testing.assert_array_equal(mixed.values[:2], [[0, 2], [3, 5]])


@pytest.mark.parametrize(
    ("start", "stop", "retained"),
    [
        (None, None, [0, 1, 2, 3]),
        ("2019-03-02", None, [1, 2, 3]),
        (None, "2019-03-05", [0, 1]),
        ("2019-03-03", "2019-03-09T00:01", [2, 3]),
        (np.datetime64("2019-03-02"), datetime(2019, 3, 6), [1, 2]),
        ("2019-01", "2020", [0, 1, 2, 3]),
    ],
)
def test_rows_by_date(start, stop, retained):
    panel = daily().rows(start, stop)
    np.testing.assert_array_equal(panel.values, daily().values[retained])
    np.testing.assert_array_equal(panel.times, daily().times[retained])
    assert panel.arms == ("a", "b", "c")
    assert daily().row_at(start or "1900") == retained[0]


def test_rows_by_number():
    untimed, timed = daily(times=None), daily(times=np.array([0.5, 1.0, 7.0, 9.0]))
    np.testing.assert_array_equal(untimed.rows(1, 3).values, untimed.values[1:3])
    assert untimed.rows(1, 3).times is None
    np.testing.assert_array_equal(timed.rows(1, 9).times, [1.0, 7.0])
    assert (timed.row_at(100), untimed.row_at(2)) == (4, 2)


def test_made_panels():
    panel = make_panel(500, 12, gaps=0.1, seed=1)
    assert repr(panel).startswith("Panel(500 rounds x 12 arms, ")
    assert panel.times[48] - panel.times[0] == np.timedelta64(1, "D")
    missing = np.isnan(panel.values).mean()
    assert abs(missing - 0.1) < 5 * np.sqrt(0.09 / panel.values.size)
    np.testing.assert_array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=1).values)
    assert not np.array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=2).values)
    static = {"epsilon": 0.0, "noise": 0.0, "gaps": 0.0, "day": 24}
    with_cycle, without = (make_panel(72, 5, cycle=c, **static).values for c in (2.0, 0))
    cycle = with_cycle - without
    np.testing.assert_allclose(cycle[24:48], cycle[:24], atol=1e-12)
    assert np.abs(cycle).max() == pytest.approx(2.0, rel=0.01)


def test_made_field_has_the_covariance_it_states():
    panel = make_panel(20_000, 4, epsilon=1.0, noise=0.1, cycle=0.0, gaps=0.0)
    apart = ((panel.coordinates[:, None] - panel.coordinates) ** 2).sum(-1)
    expected = np.exp(-apart / (2 * 0.3**2)) + 0.1 * np.eye(4)
    products = panel.values[:, :, None] * panel.values[:, None, :]
    error = products.std(0) / np.sqrt(len(products))
    assert (np.abs(products.mean(0) - expected) < 5 * error).all()
