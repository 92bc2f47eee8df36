"""The differences between two descriptions, in words."""

from __future__ import annotations

import math

from botorch_tv.identity.arrays import same_array
from botorch_tv.identity.words import FORMER, LATER, PROBES, TYPE, Description

ROUNDING = 1e-12
"""Relative difference up to which two numbers count as equal."""
ABSENT = object()
"""Stands for a part that only the other description has."""


def differences(there: Description, here: Description, path: str = "") -> list[str]:
    """List the differences between two descriptions, one phrase each.

    Real numbers that differ only by rounding count as equal, since rounding depends on the machine
    and the number of threads.

    Args:
        there: The description found in a folder.
        here: The description of what is wanted now.
        path: The path of both in the whole description.
    """
    if same_array(there, here):
        pairs = []
    elif _same_kind(there, here):
        later = LATER.get(str(here.get(TYPE)), {})
        there, here = later | there, later | here
        keys = [one for one in {**there, **here} if one != TYPE]
        deeper = {key: f"{path}.{key}" if path else str(key) for key in keys}
        pairs = [(there.get(key, ABSENT), here.get(key, ABSENT), deeper[key]) for key in keys]
    elif _same_parts(there, here):
        pairs = [(old, new, f"{path}[{n}]") for n, (old, new) in enumerate(zip(there, here))]
    elif there == here or _same_number(there, here):
        pairs = []
    else:
        return [f"{path} is {_short(there)} there and {_short(here)} here"]
    return [one for old, new, at in pairs for one in differences(old, new, at)]


def _same_kind(there: Description, here: Description) -> bool:
    """Whether both are mappings, or objects of one class, whose parts are told apart."""
    if not isinstance(there, dict) or not isinstance(here, dict) or PROBES in there:
        return False
    kind = there.get(TYPE)
    return (FORMER.get(kind, kind) if isinstance(kind, str) else kind) == here.get(TYPE)


def _same_parts(there: Description, here: Description) -> bool:
    """Whether both are lists of as many objects or real numbers, told apart one by one."""
    both = isinstance(there, list) and isinstance(here, list) and len(there) == len(here)
    return both and all(isinstance(one, dict | float | list) for one in (*there, *here))


def _same_number(there: Description, here: Description) -> bool:
    both = isinstance(there, float) and isinstance(here, float)
    return both and math.isclose(there, here, rel_tol=ROUNDING)


def _short(description: Description) -> str:
    if description is ABSENT:
        return "absent"
    if isinstance(description, dict):
        kind = str(description.get(TYPE, "a mapping"))
        return f"{kind}, sha256 {description['sha256']}" if PROBES in description else kind
    text = repr(description)
    return text if len(text) <= 80 else f"{text[:77]}..."
