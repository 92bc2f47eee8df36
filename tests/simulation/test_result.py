import importlib
import math
import os

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from absent import not_installed
from synthetic_results import make_result

from botorch_tv.simulation.result import StudyResult, verdict


@pytest.fixture
def result() -> StudyResult:
    # R_T: A = 2, 4, 6 (mean 4, sd 2); B = 5, 6, 10 (mean 7, sd sqrt 7); B − A = 3, 2, 4.
    return make_result(
        {"B": [[2, 3], [2, 4], [5, 5]], "A": [[1, 1], [3, 1], [2, 4]]},
        {"B": [[True, True], [False, True], [False, False]]},
    )


def test_summary_by_hand(result):
    table = result.summary()
    assert list(table.index) == ["A", "B"]
    a, b = table.loc["A"], table.loc["B"]
    assert [a["total_regret"], a["standard_error"]] == pytest.approx([4, 2 / math.sqrt(3)])
    assert (a["regret_per_round"], a["resets"]) == (pytest.approx(2), 0)
    assert a[["difference", "difference_error", "t_ratio"]].isna().all()
    found = b[["total_regret", "standard_error", "resets", "difference", "difference_error"]]
    assert list(found) == pytest.approx([7, math.sqrt(7 / 3), 1, 3, 1 / math.sqrt(3)])
    assert b["t_ratio"] == pytest.approx(3 * math.sqrt(3))
    single = make_result({"A": [[1, 2]], "B": [[2, 2]]}).summary()
    assert single["standard_error"].isna().all()
    assert math.isnan(single.loc["B", "t_ratio"])
    equal = make_result({"A": [[1, 2], [3, 4]], "B": [[1, 2], [3, 4]]})
    assert math.isnan(equal.paired_difference("A", "B").t_ratio)


def test_paired_difference_is_antisymmetric(result):
    forth, back = result.paired_difference("B", "A"), result.paired_difference("A", "B")
    assert forth == pytest.approx((3, 1 / math.sqrt(3)))
    assert back.mean == -forth.mean
    assert back.standard_error == forth.standard_error
    with pytest.raises(ValueError, match="no strategy 'C'; it has B, A"):
        result.paired_difference("A", "C")


def test_first_reset(result):
    first = result.first_reset()
    assert first.dims == ("strategy", "trial")
    np.testing.assert_array_equal(first.sel(strategy="B"), [1, 2, np.nan])
    assert first.sel(strategy="A").isnull().all()


def test_dimensions_in_any_order(result):
    turned = StudyResult(result.data.transpose("round", "strategy", "trial"))
    assert turned.regret.dims == ("strategy", "trial", "round")
    assert turned.summary().equals(result.summary())


def test_round_trip(result, tmp_path):
    path = result.save(tmp_path / "new folder" / "study.nc")
    loaded = StudyResult.load(path)
    xr.testing.assert_identical(loaded.data, result.data)
    assert loaded.resets.dtype == bool
    assert loaded.data["index"].dtype == np.int32
    assert {type(value) for value in loaded.data.attrs.values()} <= {str, int, float}
    assert os.listdir(path.parent) == ["study.nc"]
    loaded.save(path)  # over itself
    xr.testing.assert_identical(StudyResult.load(path).data, result.data)


def test_a_failed_save_does_not_change_the_older_file(result, tmp_path, monkeypatch):
    path = result.save(tmp_path / "study.nc")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        make_result({"A": [[9.0]]}).save(path)
    assert os.listdir(tmp_path) == ["study.nc"]
    assert StudyResult.load(path).strategies == ["B", "A"]


@pytest.mark.parametrize("content", [b"", b"no netCDF at all", "truncated", "overwritten"])
def test_damaged_file(result, tmp_path, content):
    path = tmp_path / "study.nc"
    if isinstance(content, str):
        whole = result.save(path).read_bytes()
        middle = len(whole) // 2
        content = whole[:middle] if content == "truncated" else whole[:96] + b"\xff" * middle
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"study\.nc is damaged or not a netCDF file"):
        StudyResult.load(path)


def test_foreign_and_missing_file(tmp_path):
    path = tmp_path / "foreign.nc"
    xr.Dataset({"temperature": ("time", [1.0, 2.0])}).to_netcdf(path, engine="h5netcdf")
    with pytest.raises(ValueError, match=r"foreign\.nc is a netCDF file, but no study result"):
        StudyResult.load(path)
    with pytest.raises(FileNotFoundError, match="no file"):
        StudyResult.load(tmp_path / "absent.nc")


def test_incomplete_datasets_are_refused(result):
    data = result.data
    for wrong, message in (
        (data.drop_vars("resets"), "needs the variables regret and resets"),
        (data.isel(trial=0), r"'regret': \('strategy', 'round'\)"),
        (data.isel(trial=[]), "'trial': 0"),
    ):
        with pytest.raises(ValueError, match=message):
            StudyResult(wrong)


@pytest.mark.parametrize("package", ["xarray", "pandas"])
def test_missing_extra(package):
    with (
        not_installed(package),
        pytest.raises(ImportError, match=rf"{package}.* pip install 'botorch-tv\[study\]'"),
    ):
        importlib.import_module("botorch_tv.simulation.result")


def test_printed_by_hand(result):
    lines = str(result.summary()).splitlines()
    assert lines[1].split() == ["A", "4.0", "1.2", "2.000", "0.00"]
    assert lines[2].split() == ["B", "7.0", "1.5", "3.500", "1.00", "+3.0", "0.6", "5.2"]
    assert lines[0].rindex("in s.e.") + len("in s.e.") == len(lines[2])
    with pd.option_context("display.width", 40, "display.max_columns", 3):
        printed = str(result.summary())
    assert "..." not in printed
    assert "5.2" in printed.splitlines()[2]
    part = result.summary()[["total_regret"]]
    assert type(part) is pd.DataFrame
    assert "total_regret" in str(part)


def test_verdicts():
    clear = make_result({"B": [[5], [6], [10]], "A": [[2], [4], [6]]})
    assert verdict(clear) == (
        "A has the lowest regret, 4.000 a round, 5.2 standard errors below B over 3 paired trials."
    )
    close = make_result({"B": [[3], [3], [9]], "A": [[2], [4], [6]]})
    assert "B is only 0.9 standard errors behind over 3 paired trials" in verdict(close)
    assert "run more trials" in verdict(make_result({"A": [[1]], "B": [[2]]}))
    assert verdict(make_result({"A": [[1], [2]]})) == "Only A was run: regret 1.500 a round."
