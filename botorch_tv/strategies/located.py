"""Points and times that a strategy is given, in the shape of its state."""

from __future__ import annotations

from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.inference.data import Present
from botorch_tv.strategies.checks import as_time, require_forward, require_same_kind
from botorch_tv.strategies.state import State
from botorch_tv.validation import refuse_masked, shown


def located(state: State, X: Tensor, points: Size) -> Tensor:
    """Points `batch_shape x points x d` as a log keeps them."""
    wanted = (*state.time.shape, *points, state.domain.columns)
    refuse_masked("X", X)
    if not isinstance(X, Tensor) or tuple(X.shape) != wanted:
        given = f"has shape {tuple(X.shape)}" if isinstance(X, Tensor) else f"is {shown(X)}"
        raise InputDataError(
            f"X {given}, but this state needs {wanted}: batch_shape, then "
            f"{'the number of points and ' if points else ''}d."
        )
    require_same_kind("X", X, state)
    return state.domain.locate(X)


def grouped(state: State, X: Tensor) -> Tensor:
    """Points `e x batch_shape x q x d` as `batch_shape x e x q x d`, e flattened."""
    shape, dims = state.time.shape, state.time.dim()
    given = f"has shape {tuple(X.shape)}" if isinstance(X, Tensor) else f"is {shown(X)}"
    misfit = (
        f"X {given}, but this state has batch_shape {tuple(shape)}; pass "
        "points of shape q x d, or batch_shape x q x d."
    )
    refuse_masked("X", X)
    if not isinstance(X, Tensor) or X.dim() < 2:
        raise InputDataError(misfit)
    lead = X.shape[: max(0, X.dim() - 2 - dims)]
    try:
        X = X.expand(*lead, *shape, *X.shape[-2:])
    except RuntimeError as error:
        raise InputDataError(misfit) from error
    # Counted, for -1 is ambiguous where there are no trials.
    return X.reshape(lead.numel(), *shape, *X.shape[-2:]).movedim(0, dims)


def clock(state: State, now: float | Tensor | None, step: float | Tensor) -> Present:
    """The present, and the time from which lags are counted.

    Args:
        state: All that has been told.
        now: The present; a step after the newest time told unless given.
        step: From one round to the next, a number or `batch_shape`.
    """
    if now is None:
        return Present(state.time + step, state.time)
    present = as_time(state, now, "now")
    require_forward(state, present, "now")
    return Present(present, present)
