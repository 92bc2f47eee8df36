"""Lets tests import the oracles and each other's lists (``from oracles.dense import ...``)."""

import sys
from pathlib import Path

_HERE = str(Path(__file__).parent)
if _HERE not in sys.path:
    sys.path.insert(0, _HERE)
