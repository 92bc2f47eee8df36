from __future__ import annotations

import resource
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from lasting import players, same
from lasting import study as usual_study
from matplotlib.figure import Figure
from simulation.strange_executors import Remote

from botorch_tv.memory import free_bytes
from botorch_tv.simulation import (
    Diagnosis,
    PredictionError,
    StudyResult,
    datasets,
    settings,
)
from botorch_tv.simulation import result as results
from botorch_tv.simulation.plots.curves import regret_curves
from botorch_tv.simulation.result import diagnosis_table, write_diagnosis, write_maps
from botorch_tv.simulation.store import discard

RECORD = (Diagnosis(), PredictionError())
CHUNK, TRIALS = 4, 14
study = partial(usual_study, trials=TRIALS, chunk=CHUNK)


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study(record=RECORD)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for 1,000 bytes of results, which are read in parts of 3,000."""
    monkeypatch.setattr(settings, "free_bytes", lambda device: 1000)
    monkeypatch.setattr(datasets, "BLOCK_BYTES", 3000)


def on_disk(result: StudyResult) -> bool:
    """Whether nothing along trials is in memory."""
    along = [array for array in result.data.data_vars.values() if "trial" in array.dims]
    return len(along) > 3 and not any(array.variable._in_memory for array in along)


def equal(first: Any, second: Any) -> None:
    if isinstance(first, pd.DataFrame):
        pd.testing.assert_frame_equal(pd.DataFrame(first), pd.DataFrame(second), rtol=1e-12)
    elif isinstance(first, dict):
        assert list(first) == list(second)
        for name in first:
            np.testing.assert_allclose(first[name], second[name], rtol=1e-9)
    else:
        xr.testing.assert_allclose(first, second, rtol=1e-9)


@pytest.mark.usefixtures("little")
def test_all_statistics_are_those_in_memory(whole: StudyResult, tmp_path: Path) -> None:
    result = study(tmp_path / "folder", record=RECORD)
    assert on_disk(result)
    assert not on_disk(whole)
    assert same(result, whole)
    assert {**result.data.dtypes} == {**whole.data.dtypes}
    assert result.strategies == whole.strategies
    assert set(result.data.attrs) - {"torch"} >= set(whole.data.attrs) - {"torch"}
    for name in ("summary", "first_reset", "triggers", "calibration", "mean_squared_error"):
        equal(getattr(result, name)(), getattr(whole, name)())
    equal(result.calibration_by_round(0.8, 3), whole.calibration_by_round(0.8, 3))
    equal(diagnosis_table(result), diagnosis_table(whole))
    equal(regret_curves(result, True), regret_curves(whole, True))
    equal(result.prediction_error, whole.prediction_error)
    np.testing.assert_allclose(result.total_regret("TS"), whole.total_regret("TS"), rtol=1e-12)
    assert result.paired_difference("ET", "TV") == pytest.approx(
        whole.paired_difference("ET", "TV")
    )
    equal(
        StudyResult(result.data.sel(strategy=["TV", "ET"])).summary(),
        StudyResult(whole.data.sel(strategy=["TV", "ET"])).summary(),
    )
    assert isinstance(result.plot(tmp_path / "regret.png"), Figure)
    assert len(write_diagnosis(result, tmp_path / "found")) == 5
    assert len(write_maps(result, tmp_path / "found")) == 1
    assert on_disk(result)


@pytest.mark.usefixtures("little")
def test_saving_and_loading(
    whole: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = study(tmp_path / "folder", record=RECORD, executor=Remote())
    assert on_disk(result)
    saved = result.save(tmp_path / "study.nc")
    xr.testing.assert_identical(StudyResult.load(saved).data, result.data.compute())
    assert not on_disk(StudyResult.load(saved))
    assert not on_disk(StudyResult.load(saved, in_memory=True))
    again = StudyResult.load(saved, in_memory=False)
    assert on_disk(again)
    again.save(saved)  # over itself
    assert same(StudyResult.load(saved), whole)
    monkeypatch.setattr("botorch_tv.simulation.result.free_bytes", lambda device: 1000)
    assert on_disk(StudyResult.load(saved))


def test_chunks_of_a_file(whole: StudyResult, tmp_path: Path) -> None:
    trials = whole.data.sizes["trial"]
    with h5py.File(whole.save(tmp_path / "study.nc")) as file:
        arrays = [array for array in file.values() if array.chunks and trials in array.shape]
        assert len(arrays) > 3
        for array in arrays:
            assert all(piece <= size for piece, size in zip(array.chunks, array.shape)), array.name
            assert array.maxshape == array.shape  # dimensions that may grow are slow to read
            assert array.fletcher32


@pytest.mark.usefixtures("little")
def test_older_results_do_not_change(whole: StudyResult, tmp_path: Path) -> None:
    alone = {"TV": players()["TV"]}
    first = study(tmp_path, record=RECORD, trials=2 * CHUNK + 3, strategies=alone)
    expected = whole.data.sel(strategy=["TV"]).isel(trial=slice(2 * CHUNK + 3))
    second = study(tmp_path, record=RECORD)
    assert same(second, whole)
    np.testing.assert_allclose(first.regret, expected["regret"], atol=1e-10)
    assert first.data.attrs["trials_found"] == 0
    again = study(tmp_path, record=RECORD)
    assert again.data.attrs["trials_found"] == TRIALS
    assert same(again, whole)
    with pytest.warns(UserWarning, match="omits"):
        fewer = study(tmp_path, record=RECORD, trials=CHUNK, strategies=alone)
    np.testing.assert_allclose(
        fewer.data["index"], whole.data["index"].sel(strategy=["TV"]).isel(trial=slice(CHUNK))
    )
    discard(tmp_path, TRIALS)
    assert not tmp_path.exists()
    with pytest.raises(FileNotFoundError, match=r"0000000-4\.npz is gone; run the study again"):
        _ = first.regret.values


@pytest.mark.usefixtures("little")
def test_damaged_files(tmp_path: Path) -> None:
    result = study(tmp_path / "folder")
    saved, file = result.save(tmp_path / "it.nc"), tmp_path / "folder/TV/0000004-4.npz"
    content = file.read_bytes()
    place = content.index(np.float64(result.regret.values[2, 5, 3]).tobytes())
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match=r"0000004-4\.npz is damaged"):
        _ = result.regret.values
    with h5py.File(saved) as opened:
        place = opened["regret"].id.get_chunk_info(0).byte_offset + 20
    content = saved.read_bytes()
    saved.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match="is damaged or not a netCDF file"):
        StudyResult.load(saved, in_memory=True)
    loaded = StudyResult.load(saved, in_memory=False)
    with pytest.raises(OSError):  # of the HDF5 library
        _ = loaded.regret.values


def test_large_results_stay_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = study()
    size = sum(array.nbytes for array in whole.data.data_vars.values())
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size)
    assert not on_disk(study(tmp_path / "folder"))
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size - 2)
    assert on_disk(study(tmp_path / "folder"))
    with pytest.raises(ValueError, match=r"give save_to=FOLDER .* store them on disk"):
        study()


@pytest.mark.usefixtures("little")
def test_results_that_cannot_be_merged_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = study(tmp_path)
    parts = (["ET"], ["TV", "TS"])
    first, second = (StudyResult(result.data.sel(strategy=labels)) for labels in parts)
    together = first.merge(second)
    expected = StudyResult(result.data.sel(strategy=together.strategies)).data["index"]
    np.testing.assert_array_equal(together.data["index"], expected)
    monkeypatch.setattr(results, "free_bytes", lambda device: 1000)
    with pytest.raises(ValueError, match=r"both together take .* 1,000 bytes of memory .*save_to"):
        first.merge(second)


def test_limits_of_the_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (taken + 10**6, -1))
    assert free_bytes(torch.device("cpu")) <= 10**6 + 2**22
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, -1))
    assert free_bytes(torch.device("cpu")) > 2**24
