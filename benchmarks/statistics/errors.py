"""How certain a mean is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor


def standard_error(values: np.ndarray | Tensor | Sequence[float]) -> float | None:
    """Standard error of the mean of independent values, `n`; None of a single one."""
    each = np.asarray(values, dtype=float)
    return float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else None
