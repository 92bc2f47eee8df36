"""Worlds, choices and queries of a seed are the same on every processor.

Settings let MKL and PyTorch compute as on other processors; each setting needs a process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

SCRIPT = Path(__file__).with_name("processor_studies.py")
SETTINGS = [
    {},
    {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"},
    {"MKL_CBWR": "SSE4_2", "ATEN_CPU_CAPABILITY": "avx2"},
]


def computed(folder: Path, points: int, horizon: int) -> list[dict[str, Tensor]]:
    """The results of the script under every setting."""
    found, names = [], {name for setting in SETTINGS for name in setting}
    usual = {name: value for name, value in os.environ.items() if name not in names}
    for number, setting in enumerate(SETTINGS):
        file = folder / f"{number}.pt"
        command = [sys.executable, str(SCRIPT), str(file), str(points), str(horizon)]
        # The process finds the package as this process does.
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(command, check=True, env={**usual, **setting, **path})
        found.append(torch.load(file))
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    ("points", "horizon"), [(6, 12), pytest.param(20, 60, marks=pytest.mark.slow)]
)
def test_a_seed_is_the_same_everywhere(points: int, horizon: int, tmp_path: Path) -> None:
    """Regret, which depends on the world, on every choice and on every query, within 1e-8."""
    here, *others = computed(tmp_path, points, horizon)
    # Some setting must change the last digits, or nothing is tested.
    if torch.backends.mkl.is_available():
        assert any(not torch.equal(one[name], here[name]) for one in others for name in here)
    for other in others:
        torch.testing.assert_close(other, here, rtol=0, atol=1e-8)
