"""Studies whose results memory does not hold: the same numbers, from a file, a few at a time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from lasting import KERNEL, StumblingWorld, players, same
from lasting import study as usual_study
from matplotlib.figure import Figure
from strange_executors import Remote

from botorch_tv.memory import free_bytes
from botorch_tv.simulation import (
    BoxWorld,
    Diagnosis,
    PredictionError,
    StudyResult,
    datasets,
    run_study,
    settings,
)
from botorch_tv.simulation import result as results
from botorch_tv.simulation.plots.curves import regret_curves
from botorch_tv.simulation.result import diagnosis_table, write_diagnosis, write_maps
from botorch_tv.simulation.store import Store, discard
from botorch_tv.test_functions import MarkovFunction

RECORD = (Diagnosis(), PredictionError())
CHUNK, TRIALS = 4, 14
study = partial(usual_study, trials=TRIALS, chunk=CHUNK)


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study(record=RECORD)


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for a thousand bytes of results, which are looked at in parts of three thousand.

    The regret of all rounds takes two of them, and all that is known many.
    """
    monkeypatch.setattr(settings, "free_bytes", lambda device: 1000)
    monkeypatch.setattr(datasets, "BLOCK_BYTES", 3000)


def on_disk(result: StudyResult) -> bool:
    """Whether nothing along trials is in memory."""
    along = [one for one in result.data.data_vars.values() if "trial" in one.dims]
    return len(along) > 3 and not any(one.variable._in_memory for one in along)


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
def test_everything_is_as_in_memory(whole: StudyResult, tmp_path: Path) -> None:
    result = study(tmp_path / "kept", record=RECORD)
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
    assert on_disk(result), "something of it was loaded for good"


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize("shared", [True, False])
def test_workers_of_an_executor_fill_it(
    whole: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if not shared:
        monkeypatch.setattr(Store, "is_here", lambda self: False)
    result = study(tmp_path / "kept", record=RECORD, executor=Remote())
    assert on_disk(result)
    assert same(result, whole)


@pytest.mark.usefixtures("little")
def test_it_is_saved_and_loaded(whole: StudyResult, tmp_path: Path) -> None:
    result = study(tmp_path / "kept", record=RECORD)
    saved = result.save(tmp_path / "study.nc")
    xr.testing.assert_identical(StudyResult.load(saved).data, result.data.compute())
    assert not on_disk(StudyResult.load(saved, in_memory=True))
    assert on_disk(StudyResult.load(saved, in_memory=False))
    again = StudyResult.load(saved, in_memory=False)
    again.save(saved)  # over itself
    assert same(StudyResult.load(saved), whole)


def test_a_file_beyond_memory_is_not_loaded(
    whole: StudyResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = whole.save(tmp_path / "study.nc")
    assert not on_disk(StudyResult.load(saved))
    monkeypatch.setattr("botorch_tv.simulation.result.free_bytes", lambda device: 1000)
    assert on_disk(StudyResult.load(saved))
    assert same(StudyResult.load(saved), whole)


def test_no_piece_of_a_file_is_larger_than_what_it_keeps(
    whole: StudyResult, tmp_path: Path
) -> None:
    with h5py.File(whole.save(tmp_path / "study.nc")) as file:
        retained = [
            one for one in file.values() if one.chunks and whole.data.sizes["trial"] in one.shape
        ]
        assert len(retained) > 3
        for one in retained:
            assert all(piece <= size for piece, size in zip(one.chunks, one.shape)), one.name
            assert one.maxshape == one.shape, "dimensions that may grow are slow to read"
            assert one.fletcher32


@pytest.mark.usefixtures("little")
def test_an_older_result_stays_as_it_was(whole: StudyResult, tmp_path: Path) -> None:
    """It never shows the numbers of another; without its files it is refused."""
    one = {label: player for label, player in players().items() if label == "TV"}
    first = study(tmp_path, record=RECORD, trials=2 * CHUNK + 3, strategies=one)
    expected = whole.data.sel(strategy=["TV"]).isel(trial=slice(2 * CHUNK + 3))
    second = study(tmp_path, record=RECORD)
    assert same(second, whole)
    np.testing.assert_allclose(first.regret, expected["regret"], atol=1e-10)
    assert first.data.attrs["trials_found"] == 0
    again = study(tmp_path, record=RECORD)
    assert again.data.attrs["trials_found"] == TRIALS
    assert same(again, whole)
    with pytest.warns(UserWarning, match="leaves out"):
        fewer = study(tmp_path, record=RECORD, trials=CHUNK, strategies=one)
    np.testing.assert_allclose(
        fewer.data["index"], whole.data["index"].sel(strategy=["TV"]).isel(trial=slice(CHUNK))
    )
    discard(tmp_path, TRIALS)
    assert not tmp_path.exists()
    with pytest.raises(FileNotFoundError, match=r"0000000-4\.npz is gone; run the study again"):
        _ = first.regret.values


@pytest.mark.usefixtures("little")
def test_an_interruption_leaves_chunks_and_no_result(whole: StudyResult, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, record=RECORD, world=StumblingWorld(2, KeyboardInterrupt))
    assert len(list(tmp_path.glob("*/*.npz"))) == 2 * 3
    assert not list(tmp_path.glob("*/.*.part"))
    result = study(tmp_path, record=RECORD, workers=2, world=StumblingWorld(99, KeyboardInterrupt))
    assert result.data.attrs["trials_found"] == 2 * CHUNK
    assert on_disk(result)
    assert same(result, whole)


@pytest.mark.usefixtures("little")
def test_damage_is_told(tmp_path: Path) -> None:
    result = study(tmp_path / "kept")
    saved, file = result.save(tmp_path / "it.nc"), tmp_path / "kept/TV/0000004-4.npz"
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
    with pytest.raises(OSError):  # in the words of the HDF5 library
        _ = loaded.regret.values


def test_chunks_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for the result, as it is, and for one chunk."""
    whole = study()
    size = sum(one.nbytes for one in whole.data.data_vars.values())
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size)
    assert not on_disk(study(tmp_path / "kept"))
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * size - 2)
    assert on_disk(study(tmp_path / "kept"))
    with pytest.raises(ValueError, match=r"give save_to=FOLDER .* keep them on disk"):
        study()


@pytest.mark.usefixtures("little")
def test_results_that_cannot_be_merged_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = study(tmp_path)
    one, other = (
        StudyResult(result.data.sel(strategy=["ET"])),
        StudyResult(result.data.sel(strategy=["TV", "TS"])),
    )
    together = one.merge(other)
    expected = StudyResult(result.data.sel(strategy=together.strategies)).data["index"]
    np.testing.assert_array_equal(together.data["index"], expected)
    monkeypatch.setattr(results, "free_bytes", lambda device: 1000)
    with pytest.raises(ValueError, match=r"both together take .* 1,000 bytes of memory .*save_to"):
        one.merge(other)


def test_a_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "free_bytes", lambda device: 100)
    function = MarkovFunction(KERNEL, epsilon=0.1, horizon=4, batch_shape=(5,), seed=0)
    world = BoxWorld(function, noise=0.1)
    sizes = {"trials": 5, "horizon": 4, "chunk": 2, "progress": False}
    strategies = {"TV": players()["TV"]}
    result = run_study(world, strategies, save_to=tmp_path, **sizes)  # type: ignore[arg-type]
    assert on_disk(result)
    again = run_study(world, strategies, save_to=tmp_path, **sizes)  # type: ignore[arg-type]
    assert result.data["X"].dims == ("strategy", "trial", "round", "coordinate")
    np.testing.assert_array_equal(again.data["X"], result.data["X"])


# ------------------------------------------------------------------ with memory really limited

CHILD = """
import json, resource, sys
from botorch_tv.memory import free_bytes
from botorch_tv.simulation import MarkovWorld, Recorder, StudyResult, Variable, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, random_search
import matplotlib.pyplot, pandas, torch, h5netcdf, xarray
torch.set_num_threads(1)
KERNEL, GRID = unit_kernel("se", 0.3), Grid.regular(10, 2)
WORLD = MarkovWorld(GRID, kernel=KERNEL, epsilon=0.05, noise=0.02)


class Values(Recorder):
    def variables(self, domain):
        return {"values": Variable({"arm": len(domain)})}

    def before(self, seen):
        return {"values": seen.objective.values}


def play(trials, **settings):
    players = {"any": random_search(kernel=KERNEL, noise=0.02)}
    return run_study(WORLD, players, trials=trials, horizon=50, chunk=50, workers=1,
                     progress=False, record=(Values(),), **settings)


play(50).plot()  # whatever is imported late
room = int(sys.argv[1])
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + room, taken + room))
started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert free_bytes(torch.device("cpu")) <= room
trials = int(sys.argv[2])
try:
    play(trials)
except ValueError as error:
    refused = str(error)
result = play(trials, save_to=sys.argv[3])
size = sum(one.nbytes for one in result.data.data_vars.values())
table = result.summary()
result.plot(sys.argv[3] + "/regret.png")
saved = result.save(sys.argv[3] + "/saved.nc")
loaded = StudyResult.load(saved)
assert loaded.summary().equals(table)
arms = float(loaded.data["values"].isel(trial=-1, round=-1).mean())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"size": size, "peak": 1024 * (peak - started), "refused": refused,
                  "total": float(table["total_regret"].iloc[0]), "arms": arms}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_peak_memory_is_bounded(tmp_path: Path) -> None:
    """A result of 780 MiB within 300 MiB: played, summed up, drawn, saved, loaded."""
    room, trials = 300 * 2**20, 20_000
    told = subprocess.run(
        [sys.executable, "-c", CHILD, str(room), str(trials), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    print(found)
    assert found["size"] > 2 * room
    assert found["peak"] < room
    assert "give save_to=FOLDER" in found["refused"]


def test_limits_of_the_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    monkeypatch.setattr(resource, "getrlimit", lambda which: (taken + 10**6, -1))
    assert free_bytes(torch.device("cpu")) <= 10**6 + 2**22
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, -1))
    assert free_bytes(torch.device("cpu")) > 2**24
