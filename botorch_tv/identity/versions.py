"""Versions of the libraries that take part."""

from __future__ import annotations

import botorch
import gpytorch
import numpy as np
import torch

import botorch_tv


def versions() -> dict[str, str]:
    """Versions of the libraries that take part."""
    return {
        "torch": str(torch.__version__),
        "botorch": str(botorch.__version__),
        "gpytorch": str(gpytorch.__version__),
        "numpy": np.__version__,
        "botorch_tv": botorch_tv.__version__,
    }
