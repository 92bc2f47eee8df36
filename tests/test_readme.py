"""The README's Python runs as it stands, one block after the other."""

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[1] / "README.md"


def test_every_python_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 16
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
