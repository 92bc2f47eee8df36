"""Versions of the libraries that computed something."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

import botorch
import gpytorch
import numpy as np
import torch

import botorch_tv
from botorch_tv.identity.library import library


def versions() -> dict[str, str]:
    """Versions of the libraries that take part."""
    return {
        "torch": str(torch.__version__),
        "botorch": str(botorch.__version__),
        "gpytorch": str(gpytorch.__version__),
        "numpy": np.__version__,
        "botorch_tv": botorch_tv.__version__,
    }


def libraries() -> dict[str, str]:
    """The same, this package by its code, which may differ where its version does not."""
    return versions() | {"botorch_tv": library()}


def own_versions() -> str:
    """Versions as JSON, as it is kept beside what they computed."""
    return json.dumps(versions(), sort_keys=True)


def together(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Versions of several runs as one; several of one library one after the other, each once."""
    told: dict[str, list[str]] = {}
    for one in several:
        for name, version in one.items():
            told.setdefault(name, []).extend(version.split(", "))
    return {name: ", ".join(dict.fromkeys(every)) for name, every in told.items()}
