"""Files are written whole: whoever writes, dies, or finds the disk full."""

import errno
import os
import stat

import numpy as np
import pytest
import xarray as xr
from helpers.child_study import Child, write_again_and_again

from botorch_tv.files import replacing, write_new, write_whole
from botorch_tv.simulation.datasets import read_dataset, write_dataset


def names(folder):
    return sorted(file.name for file in folder.iterdir())


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.full
def test_two_writers_and_no_damaged_read(tmp_path):
    file = tmp_path / "shared"
    sizes = (200_000, 50_000)
    writers = [Child(write_again_and_again, file, size=size) for size in sizes]
    assert [writer.received() for writer in writers] == ["started"] * 2
    whole = {bytes([65 + size % 7]) * size for size in sizes}
    seen = set()
    for read in range(20_000):
        found = file.read_bytes()
        assert found in whole, f"read {read} found {len(found)} bytes"
        seen.add(len(found))
        if read > 300 and len(seen) == 2:
            break
    for writer in writers:
        writer.kill()
    assert seen == set(sizes)
    write_whole(file, lambda opened: opened.write(b"the last"))
    assert names(tmp_path) == ["shared"], "files of killed writers are removed"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
@pytest.mark.usefixtures("umask")
def test_a_file_retains_its_mode(tmp_path, mode):
    file = tmp_path / "one"
    for writing in (write_whole, lambda path, _: write_dataset(xr.Dataset({"a": 1}), path)):
        file.write_text("old")
        file.chmod(mode)
        writing(file, lambda opened: opened.write(b"new"))
        assert stat.S_IMODE(file.stat().st_mode) == mode
        file.unlink()


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_has_the_mode_of_new_files(tmp_path, mask, umask):
    umask(mask)
    write_whole(tmp_path / "whole", lambda opened: opened.write(b"1"))
    write_new(tmp_path / "new", lambda opened: opened.write(b"1"))
    write_dataset(xr.Dataset({"a": 1}), tmp_path / "set.nc")
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o666 & ~mask}


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_does_not_change_the_old_file(tmp_path, step, monkeypatch):
    file, data = tmp_path / "one.nc", xr.Dataset({"a": ("n", np.arange(5.0))})
    write_dataset(data, file)
    before = file.read_bytes()

    def write(opened):
        opened.write(b"half")
        if step == "write":
            full()

    if step != "write":
        monkeypatch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            write_dataset(data * 2, file)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, write)
    monkeypatch.undo()
    assert names(tmp_path) == ["one.nc"]
    assert file.read_bytes() == before
    assert read_dataset(file).equals(data)


def test_a_dataset_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    steps = []
    honest = os.fsync, os.replace

    def fsync(handle):
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        honest[0](handle)

    def replace(*paths):
        steps.append("rename")
        honest[1](*paths)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_dataset(xr.Dataset({"a": 1}), tmp_path / "set.nc")
    assert steps == ["file", "rename", "folder"]


def test_a_single_writer_of_a_new_file_wins(tmp_path, monkeypatch):
    def late(opened):
        (tmp_path / "one").write_bytes(b"first")
        opened.write(b"second")

    write_new(tmp_path / "one", late)
    write_new(tmp_path / "one", lambda opened: opened.write(b"third"))
    (tmp_path / "one").unlink()
    monkeypatch.setattr(os, "link", full)  # a file system without links
    write_new(tmp_path / "one", late)
    write_new(tmp_path / "two", lambda opened: opened.write(b"second"))
    assert names(tmp_path) == ["one", "two"]
    assert (tmp_path / "one").read_bytes() == b"first"


def test_files_of_running_processes_stay(tmp_path):
    with replacing(tmp_path / "one") as mine:
        write_whole(tmp_path / "one", lambda opened: opened.write(b"other"))
        assert mine.exists()
        mine.write_bytes(b"mine")
    assert (tmp_path / "one").read_bytes() == b"mine"


def test_long_names(tmp_path):
    name = "ü" * 127
    write_whole(tmp_path / name, lambda opened: opened.write(b"1"))
    assert names(tmp_path) == [name]
