"""What a result says of the run that made it."""

import json
import sys
from pathlib import Path

from benchmarks.speed import common


def test_a_command_is_told_without_the_folders_of_a_machine(monkeypatch, tmp_path):
    given = ["script", "--trials", "6", "--out", str(tmp_path / "found.json"), "runs/one"]
    monkeypatch.setattr(sys, "argv", given)
    assert common.command().endswith(" --trials 6 --out found.json runs/one")


def test_no_result_names_a_folder_of_a_machine():
    def commands(entry):
        if isinstance(entry, dict):
            yield from [entry["command"]] if "command" in entry else []
            entry = list(entry.values())
        for part in entry if isinstance(entry, list) else []:
            yield from commands(part)

    told = [
        one
        for path in common.RESULTS.glob("*.json")
        for one in commands(json.loads(path.read_text()))
    ]
    assert told
    assert not [one for one in told for word in str(one).split() if Path(word).is_absolute()]
