"""Run tests and write their results as JSON.

python -m benchmarks.gpu.tests --out FILE [-m MARK] PATH ...
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.records import ROOT, environment

TAIL = 2000
"""Characters of the end of a failure's report that are saved."""


class Results:
    """Counts outcomes and writes them after every test."""

    def __init__(self, record: dict[str, Any], out: Path) -> None:
        self.record, self.out = record, out
        record |= {"passed": 0, "skipped": 0, "failed": []}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after the setup, the call and the end of every test."""
        if report.failed:
            test = {"test": report.nodeid, "when": report.when}
            self.record["failed"].append(test | {"report": report.longreprtext[-TAIL:]})
        elif report.skipped:
            self.record["skipped"] += 1
        elif report.when == "call":
            self.record["passed"] += 1
        if report.when == "call":
            self.write()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Called by pytest after every file that it reads."""
        if report.failed:
            test = {"test": report.nodeid, "when": "collect"}
            self.record["failed"].append(test | {"report": report.longreprtext[-TAIL:]})

    def write(self) -> None:
        """Write the record."""
        self.out.write_text(json.dumps(self.record, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests and return pytest's exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.tests")
    parser.add_argument("paths", nargs="+")
    parser.add_argument("-m", dest="mark", default="not slow", help="as for pytest")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    record: dict[str, Any] = {"benchmark": "tests"} | environment(seed=0)
    results = Results(record, options.out.resolve())
    os.chdir(ROOT)  # for the settings of pytest
    quiet = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    code = int(pytest.main([*quiet, "-m", options.mark, *options.paths], plugins=[results]))
    record["exit_code"] = code
    results.write()
    return code


if __name__ == "__main__":
    sys.exit(main())
