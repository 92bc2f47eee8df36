"""The GPU benchmark: its parts run and save results even if a part fails."""

import json
from pathlib import Path

import pytest
import torch
from lasting import Child, play_without_netcdf

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import choices, graphs, loops, rounds, session
from benchmarks.gpu.parts import PARTS, Part, Size
from benchmarks.speed import figure4, limits
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.strategies import Grid

CPU = torch.device("cpu")
FAST = Size("cpu", quick=True)


def script(folder: Path, name: str, body: str, seconds: float = 60, **more: object) -> Part:
    path = folder / f"{name}.py"
    path.write_text(f"import sys\nout = sys.argv[-1]\n{body}\n")
    part = Part(name, name, seconds, lambda size: [], **more)  # type: ignore[arg-type]
    return type("Script", (Part,), {"command": lambda self, size: [str(path)]})(*part)


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


def test_every_part_is_written_down_before_the_next_begins(tmp_path: Path) -> None:
    out = tmp_path / "out"
    look = f"import json, os\njson.dump(sorted(os.listdir({str(out)!r})), open(out, 'w'))"
    parts = [script(tmp_path, "one", "open(out, 'w').write('[1]')"), script(tmp_path, "two", look)]
    session.run_parts(parts, FAST, out, seconds=60)
    assert json.loads((out / "two.json").read_text()) == ["index.json", "one.json"]


def test_no_part_is_started_when_time_is_over(tmp_path: Path) -> None:
    index = session.run_parts(PARTS, FAST, tmp_path, seconds=0.0)
    assert {part["ended"] for part in index["parts"]} == {"not started"}
    assert [path.name for path in tmp_path.iterdir()] == ["index.json"]


@pytest.mark.parametrize("quick", [True, False])
def test_every_part_understands_its_arguments(quick: bool) -> None:
    size = Size("cpu", quick)
    given = {part.name: [*part.arguments(size), "--out", "file"] for part in PARTS}
    assert choices.parse(given["choices"]).device == CPU
    assert rounds.parse(given["rounds"]).device == CPU
    assert figure4.parse(given["figure4-float64"]).dtype == "float64"
    assert figure4.parse(given["figure4-float32"]).dtype == "float32"
    assert limits.parse(given["limits"]).devices == ["cpu"]
    assert loops.parse(given["loops"]).loops == (2 if quick else 4096)
    assert sum(part.seconds for part in PARTS) <= 30 * 60
    assert all(Path(path).exists() for path in given["tests"] if path.startswith("tests/"))


def test_the_command_runs_without_a_gpu(tmp_path: Path) -> None:
    chosen = ["--parts", "choices", "--device", "cpu", "--quick"]
    index = command.main(["--out", str(tmp_path), *chosen])
    assert [part["ended"] for part in index["parts"]] == ["done"]
    found = json.loads((tmp_path / "choices.json").read_text())
    assert found["all_equal"]
    assert set(found["presets"]) == set(choices.presets())


def test_eager_and_captured_rounds_are_compared(tmp_path: Path, monkeypatch) -> None:
    assert set(graphs.PLAYED) <= set(choices.presets())
    monkeypatch.setattr(graphs, "PLAYED", ("TV-GP-UCB", "SW-GP-UCB"))
    small = PARTS[[part.name for part in PARTS].index("rounds")].arguments(FAST)
    record = rounds.main([*small, "--out", str(tmp_path / "found.json")])
    assert json.loads((tmp_path / "found.json").read_text()) == record
    assert record["all_equal"]
    assert set(record["captured"]) == set(graphs.PLAYED)
    assert set(record["experts"]) == set(rounds.experts())
    for found in record["captured"].values():
        assert found["eager"]["warnings"] == found["captured"]["warnings"] == []
        assert found["captured"]["seconds"] > 0


def test_loops_are_played_as_one_batch(tmp_path: Path, monkeypatch) -> None:
    small = PARTS[[part.name for part in PARTS].index("loops")].arguments(FAST)
    record = loops.main([*small, "--out", str(tmp_path / "found.json")])
    assert json.loads((tmp_path / "found.json").read_text()) == record
    assert set(record["strategies"]) == {"adaptive", "given"}
    for found in record["strategies"].values():
        assert found["loops"] == 2
        assert len(found["seconds"]["ask"]) == len(found["seconds"]["tell"]) == 4
        assert all(call["megabytes"] > 0 for call in found["calls_late"].values())
        assert 0 < found["state_bytes_per_loop"] * 2 <= found["estimated_bytes"]
    # As many as half of the memory holds.
    strategy = loops.STRATEGIES["given"]()
    each = loops.bytes_of(strategy, loops.begun(strategy, 1, CPU), 5, 1)
    monkeypatch.setattr(loops, "free_bytes", lambda device: 2 * each)
    options = loops.parse([*small, "--out", "nowhere"])
    assert loops.measure(strategy, options, 1e9)["loops"] == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--out", str(tmp_path)])
    assert "--device cpu --quick" in capsys.readouterr().err


def test_missing_packages_are_named(monkeypatch, capsys) -> None:
    monkeypatch.setattr(command, "NEEDED", ("torch", "no_such_package"))
    with pytest.raises(SystemExit):
        command.main(["--out", "nowhere"])
    assert "no_such_package not installed here; without the internet" in capsys.readouterr().err


def test_different_runs_are_reported() -> None:
    strategy = choices.presets()["TV-GP-UCB"]
    world = MarkovWorld(Grid.regular(4, 2), kernel=strategy.kernel, epsilon=0.03, noise=0.02)
    size = {"trials": 3, "horizon": 5, "progress": False}
    run = run_study(world, {"TV": strategy}, **size)
    assert choices.compare(run, run)["equal"]
    index = run.data["index"].copy()
    index[0, 1, 3] += 1
    found = choices.compare(run, type(run)(run.data.assign(index=index)))
    assert not found["equal"]
    assert (found["trials_that_part"], found["first_round_of_parting"]) == (1, 4)


def test_nothing_but_files_of_studies_needs_netcdf(tmp_path: Path) -> None:
    child = Child(play_without_netcdf, tmp_path)
    assert "is not installed: pip install 'botorch-tv[study]'" in child.told()
    child.end()
    assert json.loads((tmp_path / "found.json").read_text())["all_equal"]
    assert (tmp_path / "regret.png").stat().st_size > 1000
