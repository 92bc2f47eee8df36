"""The advice in a loop's errors, as shell commands."""

from __future__ import annotations

from pathlib import Path

from botorch_tv.strategies.loop.cures import Act, Refusal

OBSERVE = "botorch-tv loop observe {file} Y NAME=VALUE ..."
COMMANDS = {
    Act.ASK: "botorch-tv loop ask {file}",
    Act.TELL: "botorch-tv loop tell {file} Y --number {number}",
    Act.FAILED: "--failed instead of Y",
    Act.OBSERVE_FAILED: "--failed instead of Y",
    Act.AMEND: "botorch-tv loop amend {file} Y --number {number}",
    Act.AMEND_FAILED: "--failed instead of Y",
    Act.REMOVE: "botorch-tv loop remove {file} --number {number}",
    Act.SHOW_TABLE: "botorch-tv loop table {file}",
    Act.MEANT: "--number {number}",
    Act.DISCARD: "botorch-tv loop discard {file} --number {number}",
    Act.ALLOW: "botorch-tv loop ask {file} --pending {number}",
    Act.OBSERVE: OBSERVE,
    Act.OBSERVE_AT: f"{OBSERVE} --time TIME",
    Act.NOW: "--time",
    Act.TIME: "--time",
    Act.DATE: "2026-03-01T08:30+01:00",
    Act.UNIT: "botorch-tv loop new --unit hours",
    Act.NUMBERS: "botorch-tv loop new --unit rounds",
    Act.TABLE: "botorch-tv loop import",
    Act.SAVE: "botorch-tv loop",
    Act.STRATEGY: "a shell plays adaptive_gp_ucb alone, so go on in Python, by Loop.load",
}
"""The command of each act."""


def in_shell_words(error: Refusal, file: Path) -> str:
    """The message of an error, with commands instead of Python calls."""
    return "".join(
        part if isinstance(part, str) else COMMANDS[part.act].format(file=file, number=part.number)
        for part in error.parts
    )
