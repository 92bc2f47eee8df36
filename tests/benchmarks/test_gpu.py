"""The GPU benchmark: its parts run and save results even if a part fails."""

import json
from pathlib import Path

import pytest
import torch
from helpers.child_study import Child, play_without_netcdf

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import captured_rounds, choices, loops, session
from benchmarks.gpu.parts import PARTS, Part, Size
from benchmarks.speed import limits

CPU = torch.device("cpu")
FAST = Size("cpu", quick=True)


def script(folder: Path, name: str, body: str, seconds: float = 60, **more: object) -> Part:
    path = folder / f"{name}.py"
    path.write_text(f"import sys\nout = sys.argv[-1]\n{body}\n")
    part = Part(name, name, seconds, lambda size: [], **more)  # type: ignore[arg-type]
    return type("Script", (Part,), {"command": lambda self, size: [str(path)]})(*part)


@pytest.mark.full
def test_other_parts_run_after_a_failure(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(session, "LEAST", 0.0)
    good = "open(out, 'w').write('[1]')"
    parts = [
        script(tmp_path, "raises", "raise SystemError('out of luck')"),
        script(tmp_path, "silent", "pass"),
        script(tmp_path, "dies", f"{good}\nimport os; os.abort()"),
        script(tmp_path, "hangs", f"{good}\nprint('here', flush=True)\nwhile True: pass", 1.5),
        script(tmp_path, "absent", good, needs=("no_such_package",)),
        script(tmp_path, "good", good),
    ]
    out = tmp_path / "out"
    session.run_parts(parts, FAST, out, seconds=60, commit="abc")
    index = json.loads((out / "index.json").read_text())
    ended = {part["name"]: part for part in index["parts"]}
    assert index["commit"] == "abc"
    assert torch.__version__.startswith(index["versions"]["torch"])  # with or without +cpu
    assert "out of luck" in ended["raises"]["output"]
    assert {name: part["ended"] for name, part in ended.items()} == {
        "raises": "failed (1)",
        "silent": "failed (0)",
        "dies": "failed (-6)",
        "hangs": "out of time",
        "absent": "skipped",
        "good": "done",
    }
    assert "here" in ended["hangs"]["output"]
    assert 1.5 <= ended["hangs"]["seconds"] < 20
    retained = {path.name for path in out.iterdir()}
    assert retained == {"index.json", "dies.json", "hangs.json", "good.json"}


@pytest.mark.parametrize("quick", [True, False])
def test_every_part_understands_its_arguments(quick: bool) -> None:
    size = Size("cpu", quick)
    given = {part.name: [*part.arguments(size), "--out", "file"] for part in PARTS}
    assert choices.parse(given["choices"]).device == CPU
    assert captured_rounds.parse(given["rounds"]).device == CPU
    assert limits.parse(given["limits"]).devices == ["cpu"]
    assert loops.parse(given["loops"]).loops == (2 if quick else 4096)
    assert sum(part.seconds for part in PARTS) <= 30 * 60
    assert all(Path(path).exists() for path in given["tests"] if path.startswith("tests/"))


@pytest.mark.full
def test_the_command_runs_without_a_gpu(tmp_path: Path) -> None:
    chosen = ["--parts", "choices", "--device", "cpu", "--quick"]
    index = command.main(["--out", str(tmp_path), *chosen])
    assert [part["ended"] for part in index["parts"]] == ["done"]
    found = json.loads((tmp_path / "choices.json").read_text())
    assert found["all_equal"]
    assert set(found["presets"]) == set(choices.presets())


@pytest.mark.full
def test_nothing_but_files_of_studies_needs_netcdf(tmp_path: Path) -> None:
    child = Child(play_without_netcdf, tmp_path)
    assert "is not installed: pip install 'botorch-tv[study]'" in child.received()
    child.end()
    assert json.loads((tmp_path / "found.json").read_text())["all_equal"]
    assert (tmp_path / "regret.png").stat().st_size > 1000
