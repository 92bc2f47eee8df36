import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from botorch_tv.simulation.panels import load_panel, make_panel

GAP = np.nan


def written(folder, text: str, name: str = "panel.csv"):
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


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
    with pytest.raises(ValueError, match=f"a.npz has no numeric array '{key}' .* such are: field"):
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
        ({"axes": ("lat", "east")}, "no array 'east' of 3 numbers; it has field"),
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
    contents = {
        "panel.xlsx": (b"", r"must end in .npz, .csv, .csv.gz"),
        "a.npz": (b"not an archive", "damaged"),
        "flipped.npz": (flipped, "is damaged"),
        "line.npz": (None, "no numeric array .*such are: none"),
        "b.csv.gz": (gzip.compress(b"1,2\n" * 1000)[:-9], "b.csv.gz is not a table"),
        "c.csv": (b"\xff\xfe\x00", "c.csv is no table"),
    }
    for name, (content, message) in contents.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_panel(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no file"):
        load_panel(tmp_path / "absent.npz")
    with pytest.raises(ValueError, match=r"panel.xlsx.*must end in .npz, .csv, .csv.gz"):
        load_panel(written(tmp_path, "", "panel.xlsx"))
    with pytest.raises(ValueError, match="damaged"):
        load_panel(written(tmp_path, "not an archive", "a.npz"))
    np.savez(tmp_path / "line.npz", a=np.arange(5))
    with pytest.raises(
        ValueError, match=r"no numeric array .*of two or more dimensions.*such are: none"
    ):
        load_panel(tmp_path / "line.npz")
    with pytest.raises(ValueError, match="single table, but key is 'a'"):
        load_panel(written(tmp_path, "a,b\n1,2\n"), key="a")
    broken = {"b.csv.gz": gzip.compress(b"1,2\n" * 1000)[:-9], "c.csv": b"\xff\xfe\x00"}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"{name} is not a table"):
            load_panel(tmp_path / name)


def test_damaged_archive(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(40.0).reshape(10, 4))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[200] ^= 255
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        load_panel(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["panel.csv", "panel.csv.gz", "PANEL.CSV"])
def test_table_with_dates_and_gaps(tmp_path, name):
    text = "a,Date,b\n1.5,2019-03-01,\n-2e3,2019-03-02,7\nNaN,2019-03-05,NA\n"
    panel = load_panel(written(tmp_path, text, name))
    np.testing.assert_array_equal(panel.values, [[1.5, GAP], [-2000, 7], [GAP, GAP]])
    assert panel.arms == ("a", "b")
    np.testing.assert_array_equal(
        panel.times, np.array(["2019-03-01", "2019-03-02", "2019-03-05"], "datetime64[D]")
    )


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
        ("a,b\n", "no readings; add some below"),
        ("a,b\n1,2,3\n", "is not a table .*Expected 2 fields in line 2, saw 3"),
        ("a,b\n1,2\n3,cold\n", "line 3: 'cold' is not a number; a missing reading"),
        ("a,b\n1,inf\n", r"the readings at \[\[0, 1\]\], row and arm, are infinite"),
        ("d,b\n2020-01-01,1\nlater,2\n", "line 3: 'later' is not a date"),
        ("d,b\n2020-01-01,1\n1/2/2020,2\n", "line 3: '1/2/2020' .* differs from '2020-01-01'"),
        ("d,b\n01/02/2020,1\n02/02/2020,2\n", "line 2: '01/02/2020' may begin with"),
        ("d;b\n02.02.2020;1\n03.02.2020;2\n", "line 3: '03.02.2020' may begin with"),
        ("d,b\n2020-01-02,1\n2020-01-01,2\n", "not after"),
        ("d,e,b\n2020-01-01,2020-01-01,1\n", "two columns of dates"),
        ("d\n2020-01-01\n", r"values have shape \(0,\)"),
        ("a;b\n1.234;2\n1,5;3\n", "line 2: '1.234' may have a thousands separator"),
        ("a;b\n1.234,5;2\n1,5;3\n", "line 2: '1.234,5' may have a thousands separator"),
    ],
)
def test_bad_tables(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_panel(written(tmp_path, text))


@pytest.mark.parametrize(
    "dates",
    [
        ("30/01/2020", "31/01/2020", "01/02/2020"),  # no thirtieth month
        ("1/30/2020", "1/31/2020", "2/1/2020"),
        ("2020/01/30", "2020/01/31", "2020/02/01"),
        ("2020-1-30", "2020-1-31", "2020-2-1"),
        ("30.01.2020 00:00", "31.01.2020 00:00", "01.02.2020 00:00"),
        ("30 Jan 2020", "31 Jan 2020", "1 Feb 2020"),
    ],
)
def test_unambiguous_dates(tmp_path, dates):
    panel = load_panel(
        written(tmp_path, "d,a\n" + "".join(f"{date},{n}\n" for n, date in enumerate(dates)))
    )
    wanted = np.array(["2020-01-30", "2020-01-31", "2020-02-01"], "datetime64[D]")
    np.testing.assert_array_equal(panel.times, wanted)


@pytest.mark.parametrize(
    "date", ["2020/01/02", "2020/1/2", "2020-1-2", "2 Jan 2020", "Jan 2, 2020"]
)
def test_dates_with_a_leading_year_or_a_named_month(tmp_path, date):
    panel = load_panel(written(tmp_path, f"d;a\n{date};1\n"))
    assert panel.times[0] == np.datetime64("2020-01-02")


def test_files_of_data_frames(tmp_path):
    made = make_panel(40, 5, gaps=0.2)
    frame = pd.DataFrame(made.values, index=made.times, columns=made.arms)
    frame.to_csv(tmp_path / "frame.csv.gz")
    panel = load_panel(tmp_path / "frame.csv.gz")
    np.testing.assert_array_equal(panel.values, made.values)
    np.testing.assert_array_equal(panel.times, made.times)
    assert panel.arms == made.arms


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


def test_decimals_with_commas_only(tmp_path):
    panel = load_panel(written(tmp_path, "1,5;2,5\n3,5;4,5\n"))
    np.testing.assert_array_equal(panel.values, [[1.5, 2.5], [3.5, 4.5]])
    dated = load_panel(written(tmp_path, "time;a\n2020-01-01;1,5\n2020-01-02;2,5\n"))
    np.testing.assert_array_equal(dated.values, [[1.5], [2.5]])
    assert dated.times.dtype.kind == "M"


def risen(header: str, rows: int = 9) -> str:
    return header + "".join(f"{1000 + 60 * row},{row % 3},{row % 2}\n" for row in range(rows))


@pytest.mark.parametrize(("header", "name"), [("stamp,a,b\n", "stamp"), ("", "0")])
def test_times_in_numbers_are_named(tmp_path, header, name):
    file = written(tmp_path, risen(header))
    assert load_panel(file).times is None
    panel = load_panel(file, times=name)
    np.testing.assert_array_equal(panel.times, 1000 + 60.0 * np.arange(9))
    assert panel.values.shape == (9, 2)
    arm = load_panel(file, times="")
    assert arm.times is None
    np.testing.assert_array_equal(arm.values[:, 0], 1000 + 60 * np.arange(9))
    with pytest.raises(ValueError, match="no single column 'when' for times; its columns are"):
        load_panel(file, times="when")


@pytest.mark.parametrize("times", ["on", "due", ""])
def test_two_columns_of_dates(tmp_path, times):
    text = "on,due,a\n2020-01-01,2021-01-01,1\n2020-01-02,2021-01-05,2\n"
    with pytest.raises(ValueError, match="two columns of dates"):
        load_panel(written(tmp_path, text))
    with pytest.raises(ValueError, match=r"line 2: '202.-01-01' is not a number"):
        load_panel(written(tmp_path, text), times=times)
    with pytest.raises(ValueError, match="line 2: 'x' is not a date"):
        load_panel(written(tmp_path, "a,b\nx,1\ny,2\n"), times="a")


def test_a_header_beyond_its_data(tmp_path):
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("values.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"odd\.npz"):
        load_panel(tmp_path / "odd.npz")
