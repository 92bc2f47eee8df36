"""Whether a suggestion belongs to the state and strategy that are told of it."""

from __future__ import annotations

import math

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.strategies.checks import require_same_kind
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.fingerprints import first_difference
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require_trials, shown

FIX = "; for a point chosen elsewhere pass strategy.suggestion_at(state, X)."


def require_suggestion(suggestion: object, mark: str | None) -> None:
    """Raise an ``InputDataError`` unless it is a suggestion, and of the strategy with this mark."""
    if not isinstance(suggestion, Suggestion):
        raise InputDataError(
            f"suggestion is {shown(suggestion)}, but it must be what ask() gave" + FIX
        )
    made_by = suggestion.made_by
    if made_by is not None and mark is not None and made_by != mark:
        maker, told = first_difference((made_by,), (mark,))
        raise InputDataError(
            f"the suggestion was made by {maker}, but {told} is told of it, whose prediction and "
            "width are others" + FIX
        )


def check_suggestion(state: State, suggestion: Suggestion, *, compared: bool) -> None:
    """Raise an ``InputDataError`` unless a suggestion is one for a state's trials and domain.

    Args:
        state: What is to be told of it.
        suggestion: What was measured.
        compared: Whether its prediction is compared with the observation.
    """
    domain, shape = state.domain, state.time.shape
    X, index, time = suggestion.X, suggestion.index, suggestion.time
    for name, tensor, wanted in (
        ("X", X, Size((*shape, domain.columns))),
        ("sd", suggestion.sd, shape),
        ("sqrt_beta", suggestion.sqrt_beta, shape),
    ):
        _require_shape(name, tensor, wanted)
        require_same_kind(f"suggestion.{name}", tensor, state)
    _require_shape("time", time, shape)
    if time.dtype != torch.float64 or time.device != state.time.device:
        raise InputDataError(
            f"suggestion.time is {time.dtype} on {time.device}, but times are torch.float64 on "
            f"{state.time.device}" + FIX
        )
    if compared:
        for tensor in (suggestion.mean, suggestion.sd):
            require_trials(
                tensor.abs() < math.inf,  # in fewer operations than isfinite(), in every round
                tensor,
                "was predicted, and a trigger cannot compare an observation with that",
                "pass strategy.suggestion_at(state, X).",
            )
    if not isinstance(domain, Grid):
        if index is not None:
            raise InputDataError(
                f"the suggestion is of a grid, arm {_first(index)}, but the state is on "
                f"{domain!r}" + FIX
            )
        domain.locate(X)
        return
    _require_arms(domain, index, X, shape)


def _require_arms(domain: Grid, index: Tensor | None, X: Tensor, shape: Size) -> None:
    """Raise unless X are the points of these arms."""
    if not isinstance(index, Tensor):
        raise InputDataError(
            f"the suggestion names no arm, but the state is on {domain!r}; it is of a box" + FIX
        )
    _require_shape("index", index, shape)
    known = index.dtype == torch.int64 and bool(((index >= 0) & (index < len(domain))).all())
    if not known:
        raise InputDataError(f"the suggestion names no arm of {domain!r}" + FIX)
    points = domain.points(index, X)
    if not torch.equal(points, X):
        apart = (points != X).any(-1)
        arm, point = index[apart][0].item(), X[apart][0].tolist()
        raise InputDataError(
            f"the suggestion is not of {domain!r}, whose arm {arm} is not at {point}" + FIX
        )


def _require_shape(name: str, tensor: object, wanted: Size) -> None:
    if not isinstance(tensor, Tensor) or tensor.shape != wanted:
        given = tuple(tensor.shape) if isinstance(tensor, Tensor) else shown(tensor)
        raise InputDataError(
            f"suggestion.{name} is {given}, but this state needs shape {tuple(wanted)}; tell the "
            "state that made the suggestion, or a later one."
        )


def _first(index: object) -> object:
    return index.reshape(-1)[:1].tolist() if isinstance(index, Tensor) else index
