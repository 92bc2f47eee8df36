"""Lets tests import the oracles and each other's lists (``from oracles.dense import ...``).

Under ``pytest -n`` every process computes on one thread, unless the environment names a number:
the threads of several processes would wait for each other.
"""

import os
import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)

if "PYTEST_XDIST_WORKER" in os.environ:  # before anything imports PyTorch, which reads it once
    os.environ.setdefault("OMP_NUM_THREADS", "1")
