"""Keep what is small of full-size runs: pictures, tables, and how they came about.

    botorch-tv paper et-table2 --out RUNS
    python -m benchmarks.paper.collect RUNS

copies every picture and table in ``RUNS`` to ``benchmarks/results`` and writes ``studies.json``
there: worlds, strategies, sizes, seed, seconds, versions, machine and commit of every study. So
collect on the machine, and at the commit, that ran them.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.speed.common import RESULTS, environment, write
from botorch_tv.simulation import StudyResult


def collect(runs: Path, results: Path = RESULTS) -> None:
    """Copy pictures and tables, and gather what the studies say of themselves.

    Args:
        runs: A folder that ``botorch-tv`` wrote to.
        results: Where to keep them.
    """
    results.mkdir(parents=True, exist_ok=True)
    for path in sorted([*runs.glob("*.png"), *runs.glob("*.csv")]):
        shutil.copy(path, results / path.name)
    told = results / "studies.json"
    studies = json.loads(told.read_text())["studies"] if told.exists() else {}
    here = environment(seed=0)
    made = {"commit": here["commit"], "machine": here["device"]}
    for path in sorted(runs.glob("*.nc")):
        attributes = StudyResult.load(path).data.attrs
        studies[path.stem] = made | {
            name: value.item() if hasattr(value, "item") else value
            for name, value in attributes.items()
        }
    write({**here, "studies": studies}, told)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    collect(parser.parse_args().runs)
