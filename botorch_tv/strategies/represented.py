"""How a prior on a box is represented: by its kernel, or by a few features."""

from __future__ import annotations

from botorch.exceptions import InputDataError

from botorch_tv.inference.box_prior import BoxPrior
from botorch_tv.inference.costs import AUTO_TOLERANCE, FEW_FEATURES, MOST_FEATURES
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.point_basis import PointBasis
from botorch_tv.inference.point_recursion import Features, refusal
from botorch_tv.inference.process import Process
from botorch_tv.strategies.box import Box


def represented(
    process: Process,
    box: Box,
    box_prior: BoxPrior,
    method: Method | Features,
    *,
    samples: bool,
    changes: bool,
) -> BoxPrior | PointBasis:
    """The prior of a strategy on a box, in features where these were asked for, or pay.

    Which it is depends on domain and kernel alone, never on how many rounds there have been.

    Args:
        process: Whose posterior is wanted.
        box: Where it chooses.
        box_prior: Its kernel there.
        method: What was asked for.
        samples: Whether functions are drawn, which are others in features.
        changes: Whether the kernel, or what has been observed, changes as it goes, for which there
            is regression alone.

    Raises:
        InputDataError: If features were asked for, but do not serve.
    """
    if method == "exact" or changes:
        return box_prior
    asked = method != "auto"
    reason = refusal(process, box_prior.variance.dtype, box.context_dim)
    if reason is None and (asked or not samples):
        tolerance = method.tolerance if isinstance(method, Features) else Features().tolerance
        most = MOST_FEATURES
        if not asked:
            tolerance, most = AUTO_TOLERANCE, FEW_FEATURES
        found = box.in_features(process, box_prior, tolerance, most)
        if isinstance(found, PointBasis):
            return found
        reason = found
    if not asked:
        return box_prior
    raise InputDataError(
        f"inference is {method!r}, but features do not serve here: {reason} inference='exact' does."
    )
