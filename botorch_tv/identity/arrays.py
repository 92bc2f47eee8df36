"""Arrays and tensors, described by their bytes and, up to rounding, by a few sums."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from botorch_tv.identity.source import digest
from botorch_tv.identity.words import PROBES, TYPE, Description

FEW = 16
"""Arrays of up to this many numbers are written in full."""
ARRAY_ROUNDING = 1e-10
"""Difference of sums up to which arrays count as equal, relative to the Euclidean norm."""


def describe_array(array: np.ndarray | Tensor) -> Description:
    """Type, shape, a digest of the bytes, and sums for float64, which may have been computed.

    Raises:
        ValueError: If it is an array of Python objects.
    """
    if isinstance(array, Tensor):
        if array.dtype == torch.bfloat16:  # NumPy has no such numbers, float32 has them all
            return describe_array(array.float()) | {TYPE: f"bfloat16 {_shape(tuple(array.shape))}"}
        array = array.resolve_conj().resolve_neg().numpy()
    if array.dtype.hasobject:
        raise ValueError(
            f"an array of Python objects, {array.dtype} of shape {array.shape}, cannot be told "
            "apart from others; use numbers."
        )
    whole = np.ascontiguousarray(array)
    told = {TYPE: f"{array.dtype} {_shape(array.shape)}", "sha256": digest([whole.tobytes()])}
    return told | {PROBES: _probes(whole.reshape(-1))}


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "1 number"


def _probes(numbers: np.ndarray) -> list[float]:
    """The norm, then every number where there are few, otherwise sums with fixed weights."""
    if numbers.dtype != np.float64 or not np.isfinite(numbers).all():
        return []
    probes = [float(np.linalg.norm(numbers))]
    if len(numbers) <= FEW:
        probes += numbers.tolist()
    else:
        place = np.arange(1, len(numbers) + 1, dtype=np.uint64)
        for key in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9):
            mixed = place * np.uint64(key)  # spread evenly, as by Knuth's multiplicative hashing
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
            probes.append(float((numbers * ((mixed >> np.uint64(11)) / 2.0**52 - 1.0)).sum()))
    return probes if all(map(math.isfinite, probes)) else []


def same_array(there: Description, here: Description) -> bool:
    """Whether both are arrays that differ by rounding at most."""
    if not (isinstance(there, dict) and isinstance(here, dict)):
        return False
    if PROBES not in there or there.get(TYPE) != here.get(TYPE):
        return False
    if there.get("sha256") == here.get("sha256"):
        return True
    old, new = there[PROBES], here.get(PROBES)
    if not (isinstance(old, list) and isinstance(new, list) and len(old) == len(new) > 0):
        return False
    if not all(isinstance(one, float) for one in (*old, *new)):
        return False
    size = ARRAY_ROUNDING * min(old[0], new[0])  # the first is the norm
    return all(abs(one - other) <= size for one, other in zip(old, new))
