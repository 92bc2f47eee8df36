"""The Python of README and guide runs as it stands, one block after the other, and is short."""

import concurrent.futures
import re
import sys
from ast import literal_eval
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from botorch import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood
from lasting import players
from strange_executors import PlainWorld, Queue

from botorch_tv.acquisition import Candidates, WidthContext
from botorch_tv.forgetting import Log, Observation, Retained
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation import run_study

README = Path(__file__).parents[1] / "README.md"
GUIDE = README.parent / "botorch_tv" / "GUIDE.md"
DOORS = ("I know nothing", "I have a loop", "I compare algorithms")
SMALLER = {
    "trials=200, horizon=400": "trials=4, horizon=40",
    "for hour in range(14):": "for hour in range(6):",
    "n_trials=24": "n_trials=14",
}
"""What would take long, and what runs in its place."""
DOOR, OWN, FIRST = 40, 15, 10
"""Lines of code that a door may have, a part of one's own, and what anyone reads first."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def lines(block: str) -> int:
    return sum(bool(line.strip()) for line in block.splitlines())


def section(path: Path, title: str) -> str:
    return path.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_python_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = README.read_text() + GUIDE.read_text()
    for long, short in SMALLER.items():
        assert text.count(long) == 1
        text = text.replace(long, short)
    code = blocks(text, "python")
    assert len(code) == 21
    before = torch.get_default_dtype()
    names: dict[str, object] = {}
    try:
        for block in code:
            exec(compile(block, str(README), "exec"), names)
    finally:
        torch.set_default_dtype(before)
    told = capsys.readouterr().out
    assert "forgot everything before" in told  # the objective jumps at round 30
    shown = blocks(README.read_text(), "text")[0]
    for words in (told, shown):  # 58 would be best, and it drifts
        point, drift = words.splitlines()[:2]
        assert abs(literal_eval(point)["temperature"] - 58) < 5
        assert drift.startswith("Drift: probability ")
    assert (tmp_path / "regret.png").exists()
    assert (tmp_path / "night.png").exists()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("clean", [False, True], ids=["wrong", "clean"])
def test_the_guide_finds_a_wrong_reading_and_loses_no_other(seed: int, clean: bool) -> None:
    found = blocks(section(GUIDE, "Models"), "python")
    (block,) = (one for one in found if "RobustRelevancePursuit" in one)
    assert lines(block) <= OWN
    planted = "read_Y[17] += 1.0"
    assert planted in block
    names = {
        "torch": torch,
        "TimeVaryingGP": TimeVaryingGP,
        "fit_gpytorch_mll": fit_gpytorch_mll,
        "ExactMarginalLogLikelihood": ExactMarginalLogLikelihood,
    }
    torch.manual_seed(seed)
    exec(block.replace(planted, "") if clean else block, names)
    assert names["wrong"] == ([] if clean else [17])
    assert len(names["followed"].train_targets) == 40 - (not clean)


def test_every_door_is_short() -> None:
    code = {title: blocks(section(README, title), "python") for title in DOORS}
    assert all(0 < sum(map(lines, found)) <= DOOR for found in code.values())
    assert lines(blocks(README.read_text(), "python")[0]) <= FIRST
    # Whoever goes through one door need not have gone through another.
    assert all("import" in found[0] for found in code.values())
    parts = [one for one in blocks(section(GUIDE, "Your own part"), "python") if "class " in one]
    assert len(parts) == 5
    assert all(lines(one) <= OWN for one in parts)


def test_what_parts_see_is_listed_in_full() -> None:
    told = set(re.findall(r"`(\w+)(?:\([^`]*\))?`", section(GUIDE, "Your own part")))
    seen = {*dir(Candidates), *Candidates.__annotations__, *dir(Log), *Observation._fields}
    seen |= {*Retained._fields, "argmax", "at"}
    wanted = {name for name in seen - {"before_a_choice"} if not name.startswith("_")}
    retained = set(re.findall(r"(\w+)=", section(GUIDE, "Your own part")))
    assert wanted <= told | retained
    assert {"mean", "newest", "rows"} <= wanted
    own = re.findall(r"`context\.(\w+)`", section(GUIDE, "Your own part"))
    gains = {name for name in WidthContext._fields if name.endswith("information_gain")}
    assert set(own) == set(WidthContext._fields) - gains  # gains are asked for by `gain`


def test_what_it_links_to_is_there() -> None:
    for path in (README, GUIDE):
        for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
            file, _, anchor = target.partition("#")
            if file.startswith("http"):
                continue
            there = path.parent / file if file else path
            assert there.exists(), target
            if anchor and there.suffix == ".md":
                titles = re.findall(r"^#+ (.+)$", there.read_text(), flags=re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in titles}
                assert anchor in slugs, target


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

    for block in blocks(GUIDE.read_text(), "py"):
        names = {"world": PlainWorld(), "players": players(), "run_study": run_few}
        exec(compile(block, str(README), "exec"), {"__name__": "__main__", **names})
    kinds = [type(one).__name__ for one in asked]
    assert kinds == ["ThreadPoolExecutor", "Jobs", "Cluster"]
