"""The README's Python runs as it stands, one block after the other."""

import concurrent.futures
import re
import sys
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lasting import players
from strange_executors import PlainWorld, Queue

from botorch_tv.simulation import run_study

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 17
    before = torch.get_default_dtype()
    names: dict[str, object] = {}
    try:
        for block in blocks:
            small = block.replace("trials=200, horizon=400", "trials=4, horizon=40")
            exec(compile(small, str(README), "exec"), names)
    finally:
        torch.set_default_dtype(before)
    told = capsys.readouterr().out
    assert "forgot everything before" in told  # the objective jumps at round 30
    assert (tmp_path / "regret.png").exists()
    assert (tmp_path / "night.png").exists()


# ------------------------------------------------------------------ many machines


class Jobs(Queue):
    """What the README needs of submitit."""

    def __init__(self, folder: str) -> None:
        super().__init__()

    def update_parameters(self, *, timeout_min: int, slurm_gres: str) -> None:
        pass


def pool(mp_context: Any) -> Executor:
    return ThreadPoolExecutor(1)


def test_its_executors_give_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = SimpleNamespace(
        remote=lambda function: SimpleNamespace(remote=lambda *told: (function, told)),
        get=lambda reference: reference[0](*reference[1]),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=Jobs))
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", pool)
    monkeypatch.chdir(tmp_path)
    few: dict[str, Any] = {"trials": 4, "horizon": 5, "chunk": 2, "device": "cpu"}
    whole = run_study(PlainWorld(), players(), **few).data.drop_attrs()
    asked: list[Any] = []

    def run_few(*arguments: Any, **settings: Any) -> None:
        asked.append(settings["executor"])
        result = run_study(*arguments, **{**settings, **few})
        assert result.data.drop_attrs().identical(whole)

    blocks = re.findall(r"```py\n(.*?)```", README.read_text(), flags=re.DOTALL)
    for block in blocks:
        names = {"world": PlainWorld(), "players": players(), "run_study": run_few}
        exec(compile(block, str(README), "exec"), {"__name__": "__main__", **names})
    kinds = [type(one).__name__ for one in asked]
    assert kinds == ["ThreadPoolExecutor", "Jobs", "Cluster"]
