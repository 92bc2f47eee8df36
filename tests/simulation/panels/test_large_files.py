import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from botorch_tv.simulation.panels import load_panel


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(tmp_path / "odd.npz", "w") as archive:
        archive.writestr("values.npy", header.getvalue())
    with pytest.raises(ValueError, match=r"odd\.npz"):
        load_panel(tmp_path / "odd.npz")
