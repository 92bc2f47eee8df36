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
    """The same, with a digest of this package's code, which may change without the version."""
    return versions() | {"botorch_tv": library()}


def own_versions() -> str:
    """Versions as JSON, as stored with results."""
    return json.dumps(versions(), sort_keys=True)


def together(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Join the versions of several runs; different versions of a library are listed, each once."""
    told: dict[str, list[str]] = {}
    for one in several:
        for name, version in one.items():
            told.setdefault(name, []).extend(version.split(", "))
    return {name: ", ".join(dict.fromkeys(every)) for name, every in told.items()}
