from __future__ import annotations

import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from botorch.exceptions import InputDataError
from helpers.child_study import players, same
from helpers.child_study import study as usual_study
from matplotlib.figure import Figure
from simulation.strange_executors import Remote

from botorch_tv.gp import covariance, regression
from botorch_tv.memory import free_bytes
from botorch_tv.simulation import (
    Diagnosis,
    MarkovWorld,
    PredictionError,
    StudyResult,
    datasets,
    run_study,
    settings,
)
from botorch_tv.simulation.datasets import BlockMoments
from botorch_tv.simulation.plots.curves import regret_curves
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.store import discard
from botorch_tv.strategies import Grid, gp_ucb, w_gp_ucb


def test_memory_reserved_by_pytorch_is_free(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (30, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 25)
    assert free_bytes(torch.device("cuda")) == 65


KERNEL = unit_kernel("se", 0.3)
WORLD = MarkovWorld(Grid.regular(3, 2), kernel=KERNEL, epsilon=0.1, noise=0.02)
PLAYERS = {"GP": gp_ucb(kernel=KERNEL, noise=0.02)}


def small_study(**changes: object) -> object:
    return run_study(WORLD, PLAYERS, progress=False, **changes)  # type: ignore[arg-type]


def test_results_beyond_memory_are_refused_before_work(tmp_path) -> None:
    """10^11 rounds of 8 bytes of regret, 4 of side queries, 4 of a choice and 1 of a reset."""
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"1 strategies x 1,000,000 trials .* take 1.55 TiB, .*"):
        small_study(trials=10**6, horizon=10**5)
    with pytest.raises(OSError, match=r"GB of free space, but .* take 1.7e\+03 GB; free"):
        small_study(trials=10**6, horizon=10**5, save_to=tmp_path)
    assert time.perf_counter() - began < 5


def test_limit_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * 17 * 10 * 7)
    with pytest.raises(ValueError, match=r"1.83 KiB, .* 2.32 KiB .* save_to=.* at most trials=7\."):
        small_study(trials=11, horizon=10, chunk=1)
    assert small_study(trials=7, horizon=10, chunk=1)


def test_limit_of_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputDataError, match=r"1,000,000 arms, .* 21.8 TiB .* at most [\d,]+ arms"):
        gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(1000, 2))
    monkeypatch.setattr(covariance, "free_bytes", lambda device: 24 * 8 * 8)
    with pytest.raises(InputDataError, match="at most 8 arms"):
        gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(3, 2))
    gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(8, 1))


def test_the_gain_of_many_trials_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    player = w_gp_ucb(kernel=KERNEL, noise=0.02, gamma=0.9)
    found = []
    for numbers in (2**18, 1):
        monkeypatch.setattr(regression, "BLOCK_NUMBERS", {"cpu": numbers})
        state = player.init(Grid.regular(3, 2), batch_shape=(2, 3))
        for t in range(6):
            y = torch.full((2, 3), 0.1 * t, dtype=torch.float64)
            state, _ = player.tell(state, player.ask(state), y)
        found.append(player.ask(state).sqrt_beta)
    torch.testing.assert_close(*found, rtol=1e-12, atol=0)


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


@pytest.mark.full
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
    equal(regret_curves(result, True), regret_curves(whole, True))
    equal(result.prediction_error, whole.prediction_error)
    np.testing.assert_allclose(result.total_regret("TS"), whole.total_regret("TS"), rtol=1e-12)
    pair = ("ET", "TV")
    assert result.paired_difference(*pair) == pytest.approx(whole.paired_difference(*pair))
    parts = (StudyResult(each.data.sel(strategy=["TV", "ET"])) for each in (result, whole))
    equal(*(part.summary() for part in parts))
    for name in ("", "_triggers", "_calibration", "_simple_regret", "_prediction_error"):
        assert isinstance(getattr(result, f"plot{name}")(), Figure)
    assert on_disk(result)


@pytest.mark.full
@pytest.mark.usefixtures("little")
def test_saving_and_loading(whole, tmp_path, monkeypatch) -> None:
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


@pytest.mark.full
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


def flip(file: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.usefixtures("little")
def test_damaged_files(tmp_path: Path) -> None:
    result = study(tmp_path / "folder")
    saved, file = result.save(tmp_path / "it.nc"), tmp_path / "folder/TV/0000004-4.npz"
    number = np.float64(result.regret.values[2, 5, 3]).tobytes()
    flip(file, file.read_bytes().index(number))
    with pytest.raises(ValueError, match=r"0000004-4\.npz is damaged"):
        _ = result.regret.values
    with h5py.File(saved) as opened:
        place = opened["regret"].id.get_chunk_info(0).byte_offset + 20
    flip(saved, place)
    with pytest.raises(ValueError, match="is damaged or not a netCDF file"):
        StudyResult.load(saved, in_memory=True)
    loaded = StudyResult.load(saved, in_memory=False)
    with pytest.raises(OSError):  # of the HDF5 library
        _ = loaded.regret.values


@pytest.mark.full
def test_large_results_stay_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = study()
    size = sum(array.nbytes for array in whole.data.data_vars.values())
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size)
    assert not on_disk(study(tmp_path / "folder"))
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size - 2)
    assert on_disk(study(tmp_path / "folder"))
    with pytest.raises(ValueError, match=r"give save_to=FOLDER .* store them on disk"):
        study()


@pytest.mark.parametrize("cuts", [[], [1], [1, 4, 5], [10]])
def test_moments_are_those_of_two_passes(cuts: list[int]) -> None:
    values = 1e3 + np.random.default_rng(0).normal(size=(11, 4, 5))
    values[2:7, 1] = np.nan
    values[1:, 2, 0] = np.nan
    values[:, 3, 3] = np.nan
    whole = BlockMoments.together(BlockMoments.of(part) for part in np.split(values, cuts))
    present = (~np.isnan(values)).sum(0)
    np.testing.assert_array_equal(whole.count, present)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, error = np.nanmean(values, 0), np.nanstd(values, 0, ddof=1) / np.sqrt(present)
    np.testing.assert_allclose(whole.mean, mean, rtol=1e-14)
    np.testing.assert_allclose(whole.error, error, rtol=1e-9)
    assert np.isnan(whole.error[2, 0])
    assert np.isnan(whole.mean[3, 3])
