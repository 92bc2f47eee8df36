"""README and site: their blocks run, their links resolve, their output and tables are true."""

import concurrent.futures
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.child_study import players
from simulation.strange_executors import PlainWorld, Queue

from botorch_tv.acquisition import Candidates, WidthContext
from botorch_tv.forgetting import Log, Observation, Retained
from botorch_tv.simulation import run_study
from tests.tools.pages import PACKAGE, PAGES, PICTURE, README, SITE, filled, picture

CHANGELOG = PACKAGE / "CHANGELOG.md"
SEEN = (SITE / "reference" / "what-parts-see.md").read_text()
SMALLER = {
    "trials=200, horizon=400": "trials=4, horizon=40",
    "for hour in range(14):  #": "for hour in range(6):  #",
    "n_trials=24": "n_trials=14",
}
SHOWN = [page.stem for page in PAGES]


def blocks(text: str, language: str = "python") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize(("path", "most"), [(README, 1175), (CHANGELOG, 250)])
def test_pages_are_short_and_show_the_notebook(path: Path, most: int) -> None:
    """Without the table of presets, some 220 words, so that a preset may add its row."""
    text = re.sub(r"<!--[\w.]+:presets-->.*?<!--/-->", "", path.read_text(), flags=re.DOTALL)
    shown = re.sub(r"<!--.*?-->", "", text)
    assert len(shown.split()) <= most
    assert PICTURE.read_bytes() == picture()


def test_figures_come_from_stored_results() -> None:
    text = "\n\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert filled(text) == text, "run `python -m tests.tools.pages`"
    blank = re.sub(r"(<!--tests\.tools\.pages:\w+-->).*?(<!--/-->)", r"\1\2", text, flags=re.DOTALL)
    assert filled(blank) == text != blank


@pytest.mark.few("first")
@pytest.mark.parametrize("most", [1, None], ids=["first", "all"])
def test_every_python_block_runs(
    most: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = README.read_text()
    for long, short in SMALLER.items():
        assert text.count(long) == 1
        text = text.replace(long, short)
    before, names = torch.get_default_dtype(), dict[str, object]()
    try:
        for block in blocks(text)[:most]:
            exec(compile(block, str(README), "exec"), names)
    finally:
        torch.set_default_dtype(before)
    printed = capsys.readouterr().out
    pictures = {path.name for path in tmp_path.glob("*.png")}
    assert pictures == ({"regret.png", "night.png"} if most is None else set())
    (shown,) = blocks(README.read_text(), "text")
    wanted, found = (re.split(r"(\d+(?:\.\d+)?)", output) for output in (shown, printed))
    assert found[: len(wanted) - 1 : 2] == wanted[:-1:2]  # words
    numbers = [list(map(float, output[1 : len(wanted) : 2])) for output in (found, wanted)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05)


def test_examples_are_short() -> None:
    examples = blocks(README.read_text())
    for page in (SITE / "how-to").glob("own-*.md"):
        code = "\n".join(blocks(page.read_text()))
        examples += re.findall(r"^(?:@.*\n)?class .*\n(?:(?:    .*)?\n)+", code, re.MULTILINE)
    assert len(examples) >= 14
    assert max(len(re.findall(r"^.*\S", block, re.MULTILINE)) for block in examples) <= 16


def test_every_attribute_of_a_part_is_listed() -> None:
    listed = {*re.findall(r"`(\w+)(?:\([^`]*\))?`", SEEN), *re.findall(r"(\w+)=", SEEN)}
    seen = {*dir(Candidates), *Candidates.__annotations__, *dir(Log), *Observation._fields}
    seen |= {*Retained._fields, "argmax", "at"}
    wanted = {name for name in seen - {"before_a_choice"} if not name.startswith("_")}
    assert wanted <= listed
    gains = {name for name in WidthContext._fields if name.endswith("information_gain")}
    assert {*re.findall(r"`context\.(\w+)`", SEEN)} == set(WidthContext._fields) - gains


@pytest.mark.parametrize("path", PAGES, ids=SHOWN)
def test_links_resolve(path: Path) -> None:
    written = SITE / "reference" / "command-line.md"  # by benchmarks.site
    for target in re.findall(
        r"\]\(((?!http)[^)\s]+)\)", re.sub("```.*?```", "", path.read_text(), flags=re.DOTALL)
    ):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists() or there == written, target
        if anchor and there.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", there.read_text(), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, target


def test_executors_give_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, pool = Queue(), ThreadPoolExecutor(1)
    queue.update_parameters = lambda **settings: None
    ray = SimpleNamespace(
        remote=lambda function: SimpleNamespace(remote=lambda *given: (function, given)),
        get=lambda reference: reference[0](*reference[1]),
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=lambda folder: queue))
    monkeypatch.setattr(concurrent.futures, "ProcessPoolExecutor", lambda mp_context: pool)
    monkeypatch.chdir(tmp_path)
    few: dict[str, Any] = {"trials": 4, "horizon": 5, "chunk": 2, "device": "cpu"}
    whole = run_study(PlainWorld(), players(), **few).data.drop_attrs()
    kinds = []

    def run_few(*arguments: Any, **settings: Any) -> None:
        kinds.append(type(settings["executor"]).__name__)
        result = run_study(*arguments, **{**settings, **few})
        assert result.data.drop_attrs().identical(whole)

    for page in ("a-workstation", "slurm", "ray"):
        (block,) = blocks((SITE / "how-to" / f"{page}.md").read_text(), "py")
        names = {"world": PlainWorld(), "players": players(), "run_study": run_few}
        exec(compile(block, page, "exec"), {"__name__": "__main__", **names})
    assert kinds == ["ThreadPoolExecutor", "Queue", "Cluster"]
