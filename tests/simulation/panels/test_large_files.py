"""Small files that unpack to large ones are refused before they fill the memory."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from botorch_tv.simulation.panels import load_panel, table


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "UNCHECKED_BYTES", 1000)
    monkeypatch.setattr(table, "free_bytes", lambda device: 10**6)


@pytest.mark.usefixtures("little_memory")
def test_a_table(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"1,2,3\n" * 10**6))
    with pytest.raises(
        ValueError, match=r"bomb.csv.gz needs at least 0.001 GB .* 0.001 GB are free"
    ):
        load_panel(bomb)
    fair = tmp_path / "fair.csv.gz"
    fair.write_bytes(gzip.compress(b"1,2,3\n" * 10**3))
    assert load_panel(fair).values.shape == (1000, 3)


@pytest.mark.usefixtures("little_memory")
def test_arrays(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(bomb, values=np.zeros((1000, 1000)))
    assert bomb.stat().st_size < 10**5
    with pytest.raises(ValueError, match=r"bomb.npz needs at least 0.024 GB .* 0.001 GB are free"):
        load_panel(bomb)


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("values.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"odd\.npz"):
        load_panel(tmp_path / "odd.npz")
