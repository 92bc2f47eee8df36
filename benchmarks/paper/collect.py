"""Collect pictures, tables and verdicts of full-size runs, and the origin of every study.

    botorch-tv paper all --data FOLDER --out RUNS
    python -m benchmarks.paper.collect RUNS

copies every picture, table and verdict in ``RUNS`` to ``benchmarks/results``, writes
``studies.json`` there (worlds, strategies, sizes, seed, seconds, versions, machine and commit of
every study) and the page ``benchmarks/RESULTS.md``. Collect on the machine and at the commit of the
runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.paper.page import write_page
from benchmarks.records import RESULTS, environment, write
from botorch_tv.papers.experiment import OTHER_DATA
from botorch_tv.simulation import StudyResult
from botorch_tv.theory.plots import plot_mismatch

PATTERNS = ("*.png", "*.csv", "*.json")
PAGE = "RESULTS.md"


def collect(runs: Path, results: Path = RESULTS) -> None:
    """Copy pictures, tables and verdicts, and the attributes of the studies.

    Args:
        runs: A folder that ``botorch-tv`` wrote to.
        results: Folder of the copies; the page goes beside this folder.

    Raises:
        ValueError: If a run was too small, or on synthetic data.
    """
    results.mkdir(parents=True, exist_ok=True)
    for path in runs.glob("*.json"):
        verdict = json.loads(path.read_text(encoding="utf-8"))
        if not verdict["judged"] and not verdict["verdict"].startswith(OTHER_DATA):
            raise ValueError(
                f"{path} is of a quick look or a synthetic record; run it at full size."
            )
    for path in sorted(path for kind in PATTERNS for path in runs.glob(kind)):
        shutil.copy(path, results / path.name)
    record = results / "studies.json"
    studies = json.loads(record.read_text())["studies"] if record.exists() else {}
    here = environment(seed=0)
    made = {"commit": here["commit"], "machine": here["device"]}
    made |= {"load_before": here["load_before"], "threads": here["threads"]}
    for path in sorted(runs.glob("*.nc")):
        attributes = StudyResult.load(path).data.attrs
        studies[path.stem] = made | {
            name: value.item() if hasattr(value, "item") else value
            for name, value in attributes.items()
        }
    write({**here, "studies": studies}, record)
    plot_mismatch(results / "et-fig7.png")
    write_page(results, studies, results.parent / PAGE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    collect(parser.parse_args().runs)
