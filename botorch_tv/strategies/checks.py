"""What a strategy refuses, and the tensors it makes of what it accepts."""

from __future__ import annotations

import math

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require_trials


def as_time(state: State, value: float | Tensor, name: str) -> Tensor:
    """A time as a tensor, `batch_shape`, float64."""
    if isinstance(value, (int, float)):
        time = state.time.new_full((), value)  # a tensor made elsewhere would have to be copied
    else:
        time = torch.as_tensor(value, dtype=torch.float64, device=state.time.device)
    if time.dim() > 0 and time.shape != state.time.shape:
        raise InputDataError(
            f"{name} has shape {tuple(time.shape)}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; give one number, or one per trial."
        )
    time = time.expand(state.time.shape)
    require_trials(time.isfinite(), time, f"is no valid {name}", "times are finite numbers.")
    return time


def as_context(state: State, context: Tensor | None) -> Tensor | None:
    """What is known before a round, `batch_shape x c`; None where a domain has no context."""
    known = state.domain.columns - state.domain.dim
    if context is None:
        if known == 0:
            return None
        raise InputDataError(
            f"the domain has a context of {known} coordinates; pass context=, a tensor of shape "
            f"{(*state.time.shape, known)}."
        )
    wanted = (*state.time.shape, known)
    if not isinstance(context, Tensor) or (*context.shape,) != wanted or known == 0:
        described = tuple(context.shape) if isinstance(context, Tensor) else repr(context)
        raise InputDataError(
            f"context is {described}, but this state needs {wanted}: batch_shape, then the "
            "context_dim of its Box; a domain without context takes none."
        )
    require_same_kind("context", context, state)
    require_trials(
        context.isfinite().all(-1), context.sum(-1), "is no valid context", "use finite numbers."
    )
    return context


def require_forward(state: State, time: Tensor, name: str) -> None:
    """Raise an ``InputDataError`` if a time lies before the newest observation."""
    if state.told > 0:
        require_trials(
            time >= state.time,
            time,
            f"as {name} lies before the newest observation, at",
            "time does not run backwards; tell observations in order of time.",
            limit=state.time,
        )


def require_same_kind(name: str, tensor: Tensor, state: State) -> None:
    """Raise an ``InputDataError`` unless dtype and device are the state's."""
    own = state.basis.variance
    if tensor.dtype != own.dtype or tensor.device != own.device:
        raise InputDataError(
            f"{name} is {tensor.dtype} on {tensor.device}, but the state is {own.dtype} on "
            f"{own.device}; use {name}.to(dtype={own.dtype}, device='{own.device}')."
        )


def as_observation(state: State, y: Tensor | float) -> Tensor:
    """A single number as a tensor, where there is one trial; anything else as it came."""
    number = isinstance(y, (int, float)) and not isinstance(y, bool)
    if number and state.time.dim() == 0:
        return state.basis.variance.new_full((), y)  # type: ignore[arg-type]
    return y  # type: ignore[return-value]


def check_observation(
    state: State, suggestion: Suggestion, y: Tensor, time: Tensor, ok: Tensor | None
) -> None:
    """Raise an ``InputDataError`` unless an observation fits the state and can be learned from."""
    if not isinstance(y, Tensor):
        shape, dtype = tuple(state.time.shape), state.basis.variance.dtype
        wanted = (
            f"a tensor of shape {shape}, one value per trial"
            if shape
            else "a number, or as a tensor"
        )
        raise InputDataError(f"y is {y!r}; pass {wanted}: torch.tensor(y, dtype={dtype}).")
    for name, tensor in (("y", y), ("suggestion.mean", suggestion.mean)):
        _require_batch(name, tensor, state)
        require_same_kind(name, tensor, state)
    if ok is not None:
        if not isinstance(ok, Tensor) or ok.dtype != torch.bool or ok.device != y.device:
            raise InputDataError(
                f"ok is {ok!r}; pass a bool tensor on {y.device}, True where the measurement is "
                "good."
            )
        _require_batch("ok", ok, state)
    require_trials(
        y.isfinite() if ok is None else y.isfinite() | ~ok,
        y,
        "as observation y is not finite",
        "pass ok=False for a measurement that failed, or repair it.",
    )
    require_forward(state, time, "time")


def as_noise(state: State, noise: float | Tensor, ok: Tensor | None, *, check: bool) -> Tensor:
    """Noise variances of an observation, infinite where it failed, `batch_shape`."""
    own = state.basis.variance
    if isinstance(noise, Tensor):
        if noise.dim() > 0:
            _require_batch("noise", noise, state)
        noise = noise.to(own).expand(state.time.shape)
    else:
        noise = own.new_full(state.time.shape, noise)
    if check:
        require_trials(
            (noise > 0) & noise.isfinite(),
            noise,
            "as noise variance is not positive and finite",
            "use 1e-6 times the kernel's variance for nearly exact measurements.",
        )
    return noise if ok is None else torch.where(ok, noise, math.inf)


def _require_batch(name: str, tensor: Tensor, state: State) -> None:
    if tensor.shape != state.time.shape:
        raise InputDataError(
            f"{name} has shape {tuple(tensor.shape)}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; give one value per trial."
        )
