"""What a loop says to do, as it is done from a shell."""

from __future__ import annotations

import re
from pathlib import Path

OBSERVE = "botorch-tv loop observe {file} Y NAME=VALUE ..."
SAID = (
    (r"\btell\(y, suggestion=(\d+)\)", r"botorch-tv loop tell {file} Y --number \1"),
    (r"\bdiscard\((\d+)\)", r"botorch-tv loop tell {file} --failed --number \1"),
    (r", or allow more: loop\.pending \+= 1", ""),
    (r"\bobserve\(X, y, time=\.\.\.\)", OBSERVE + " --time TIME"),
    (r"\bobserve\(X, y\)", OBSERVE),
    (r"\bask\(\)", "botorch-tv loop ask {file}"),
    (r"\btell\(ok=False\)", "--failed instead of Y"),
    (r"\bsuggestion=(\d+)", r"--number \1"),
    (r"\bnow is\b", "--time is"),
    (r"\bleave now away", "leave --time away"),
)
"""Calls of methods, and commands that do the same."""


def in_shell_words(message: str, file: Path) -> str:
    """A message with commands for the calls that it advises."""
    for call, command in SAID:
        there = command.replace("{file}", str(file).replace("\\", r"\\"))
        message = re.sub(call, there, message)
    return message
