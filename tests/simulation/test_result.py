import importlib
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from helpers import child_study
from helpers.child_study import KERNEL
from helpers.missing_packages import not_installed
from helpers.synthetic_results import make_result

from botorch_tv.simulation import (
    Diagnosis,
    MarkovWorld,
    PredictionError,
    StudyResult,
    executors,
)
from botorch_tv.simulation.result import verdict
from botorch_tv.strategies import Grid


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
    lines = str(table).splitlines()
    assert lines[1].split() == ["A", "4.0", "1.2", "2.000", "0.00"]
    assert lines[2].split() == ["B", "7.0", "1.5", "3.500", "1.00", "+3.0", "0.6", "5.2"]
    assert "total_regret" in str(table[["total_regret"]])
    single = make_result({"A": [[1, 2]], "B": [[2, 2]]}).summary()
    assert single["standard_error"].isna().all()
    assert math.isnan(single.loc["B", "t_ratio"])
    equal = make_result({"A": [[1, 2], [3, 4]], "B": [[1, 2], [3, 4]]})
    assert math.isnan(equal.paired_difference("A", "B").t_ratio)


def test_paired_difference_has_a_sign(result):
    assert result.paired_difference("A", "B") == pytest.approx((-3, 1 / math.sqrt(3)))
    with pytest.raises(ValueError, match="no strategy 'C'; it has B, A"):
        result.paired_difference("A", "C")


def test_first_reset(result):
    first = result.first_reset()
    assert first.dims == ("strategy", "trial")
    np.testing.assert_array_equal(first.sel(strategy="B"), [1, 2, np.nan])
    assert first.sel(strategy="A").isnull().all()


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


@pytest.mark.parametrize("content", ["", "no netCDF at all", "truncated", "overwritten", "foreign"])
def test_damaged_and_foreign_files(result, tmp_path, content):
    path = tmp_path / "study.nc"
    whole = result.save(path).read_bytes()
    middle, message = len(whole) // 2, r"study\.nc is damaged or not a netCDF file"
    made = {"truncated": whole[:middle], "overwritten": whole[:96] + b"\xff" * middle}
    path.write_bytes(made.get(content, content.encode()))
    if content == "foreign":
        data = xr.Dataset({"temperature": ("time", [1.0, 2.0])})
        data.to_netcdf(path, engine="h5netcdf")
        message = r"study\.nc is a netCDF file, but no study result"
    with pytest.raises(ValueError, match=message):
        StudyResult.load(path)


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


def test_verdicts():
    clear = make_result({"B": [[5], [6], [10]], "A": [[2], [4], [6]]})
    assert verdict(clear) == (
        "A has the lowest regret, 4.000 a round, 5.2 standard errors below B over 3 paired trials."
    )
    close = make_result({"B": [[3], [3], [9]], "A": [[2], [4], [6]]})
    assert "B is only 0.9 standard errors behind over 3 paired trials" in verdict(close)
    assert "run more trials" in verdict(make_result({"A": [[1]], "B": [[2]]}))
    assert verdict(make_result({"A": [[1], [2]]})) == "Only A was run: regret 1.500 a round."


GRID = Grid.regular(4, 2)
PLAYERS = child_study.players()
TRIALS, CHUNK = 5, 2


def study(*labels: str, epsilon: float = 0.05, **changes: Any) -> StudyResult:
    world = MarkovWorld(GRID, kernel=KERNEL, epsilon=epsilon, noise=0.02)
    players = {label: PLAYERS[label] for label in labels}
    few = {"trials": TRIALS, "horizon": 6, "chunk": CHUNK, "seed": 3, **changes}
    return child_study.study(world=world, strategies=players, **few)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The strategies of every chunk that is played."""
    seen, play = [], executors.play_block

    def watched(settings: Any, labels: Any, *arguments: Any) -> Any:
        seen.append(list(labels))
        return play(settings, labels, *arguments)

    monkeypatch.setattr(executors, "play_block", watched)
    return seen


def assert_same(actual: StudyResult, expected: StudyResult) -> None:
    assert actual.strategies == expected.strategies
    assert set(actual.data.variables) == set(expected.data.variables)
    for name in expected.data.variables:
        np.testing.assert_array_equal(actual.data[name], expected.data[name], str(name))
        assert actual.data[name].dims == expected.data[name].dims
    assert json.loads(actual.data.attrs["strategies"]) == json.loads(
        expected.data.attrs["strategies"]
    )


@pytest.mark.full
@pytest.mark.parametrize("recorded", [{}, {"record": (Diagnosis(), PredictionError())}])
def test_an_added_strategy_is_computed_alone(tmp_path, played, recorded) -> None:
    whole = study("TV", "TS", "ET", **recorded)
    study("TV", **recorded, save_to=tmp_path)
    played.clear()
    assert_same(study("TV", "TS", "ET", **recorded, save_to=tmp_path), whole)
    assert played == [["TS", "ET"]] * 3
    again = study("TV", "TS", "ET", **recorded, save_to=tmp_path)
    assert_same(again, whole)
    assert again.data.attrs["trials_found"] == TRIALS
    assert len(played) == 3, "played again"


@pytest.mark.full
def test_an_omitted_strategy_stays(tmp_path: Path, played: list[list[str]]) -> None:
    whole = study("TV", "TS", "ET", save_to=tmp_path)
    with pytest.warns(UserWarning, match="also holds TS, which this call omits"):
        part = study("ET", "TV", save_to=tmp_path)
    own = {"strategies": part.data.attrs["strategies"]}
    expected = whole.data.sel(strategy=["ET", "TV"]).assign_attrs(own)
    assert_same(part, StudyResult(expected))
    played.clear()
    with pytest.warns(UserWarning, match="omits"):
        longer = study("TV", "ET", trials=9, save_to=tmp_path)
    assert_same(longer, study("TV", "ET", trials=9))
    assert all(labels == ["TV", "ET"] for labels in played)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(study("TV", "TS", "ET", save_to=tmp_path), whole)
