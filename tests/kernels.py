"""Where the kernels that Triton compiles can be tried: on a GPU, or in its interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch

INSTALLED = find_spec("triton") is not None
INTERPRETED = INSTALLED and os.environ.get("TRITON_INTERPRET") == "1"
"""Read by Triton when it is imported: it runs every kernel on the CPU or none."""
ON_GPU = INSTALLED and torch.cuda.is_available() and not INTERPRETED

needs_interpreter = pytest.mark.skipif(
    not INTERPRETED, reason="needs Triton, and TRITON_INTERPRET=1"
)
