"""What captured rounds move, counted, is what their kernels are said to save."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import moved
from benchmarks.gpu.moved import Counted
from botorch_tv.simulation.captured.passes import Elapsed

TRIALS, ARMS, SLOTS = 30, 1000, 100


@pytest.mark.parametrize(
    ("work", "by_operation", "fused"),
    [
        ("choice", 11, 2),
        ("choice, moving", 17, 4),
        ("observation", 6, 5),
        ("observation, forgetting", 10, 5),
    ],
)
def test_numbers_per_arm(monkeypatch, work: str, by_operation: int, fused: int) -> None:
    """The table at the head of the kernels."""
    monkeypatch.setattr("botorch_tv.inference.linalg.FEW_NUMBERS", 2**62)
    mean, each = torch.zeros(TRIALS, ARMS).double(), torch.ones(TRIALS).double()
    passes = Counted(mean, mean + 1, mean[0] + 1, mean[0] + 1, sign=1, tie=0.0)
    Counted.start()
    if work.startswith("choice"):
        passes.choose(each, Elapsed(each, each, each) if "moving" in work else None)
    else:
        passes.take_in(mean + 1, each, each > 2 if "forgetting" in work else None, sign=1)
    assert round(Counted.by_operation / mean.nbytes) == by_operation
    assert Counted.fused / mean.nbytes == fused


@pytest.mark.parametrize(("shrinks", "by_operation"), [(False, 2), (True, 4)])
def test_numbers_per_pair_of_slots(shrinks: bool, by_operation: int) -> None:
    inverse, each = torch.zeros(TRIALS, SLOTS, SLOTS).double(), torch.ones(TRIALS).double()
    passes = Counted(inverse[0], inverse[0], each, each, sign=1, tie=0.0)
    Counted.start()
    reach = torch.tensor([SLOTS, SLOTS // 2, 0]).repeat(TRIALS // 3)
    passes.absorb(inverse, inverse[:, 0] + 1, each if shrinks else None, reach, sign=1)
    assert round(Counted.by_operation / inverse.nbytes) == by_operation
    assert Counted.fused / inverse.nbytes == pytest.approx(2 * (1 + 1 / 4) / 3)


def test_a_round_is_counted(tmp_path: Path) -> None:
    size = ["--points", "12", "--trials", "2", "--horizon", "20"]
    record = moved.main([*size, "--out", str(tmp_path / "found.json")])
    assert json.loads((tmp_path / "found.json").read_text()) == record
    assert set(record["bytes_per_trial"]) == set(moved.PLAYED)
    for one in record["bytes_per_trial"].values():
        saved = one["passes_by_operation"] - one["passes_fused"]
        assert one["by_operation"] - one["fused"] == pytest.approx(saved)
        assert 0 < one["passes_fused"] < one["fused"]
        assert one["passes_by_operation"] < one["by_operation"]
