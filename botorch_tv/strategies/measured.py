"""An observation as it is told: looked at, and as tensors of a state's trials."""

from __future__ import annotations

import math
import numbers
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.inference.tensors import repeated
from botorch_tv.strategies.checks import (
    NEARLY_EXACT,
    as_time,
    least_noise,
    require_forward,
    require_same_kind,
)
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.strategies.suggested import check_suggestion, require_suggestion
from botorch_tv.validation import largest, refuse_masked, require_trials, shown


class Measured(NamedTuple):
    """An observation of every trial."""

    suggestion: Suggestion
    """The point that was measured, and its prediction."""
    y: Tensor
    """`batch_shape`; 0 where the measurement failed."""
    noise: Tensor
    """Its variance, infinite where the measurement failed, `batch_shape`."""
    time: Tensor
    """When it was made, `batch_shape`, float64."""
    least_noise: float
    """A lower bound of the variances."""
    ok: Tensor | None
    """Where the measurement is good, `batch_shape`, bool; None for everywhere."""
    told_noise: float | Tensor | None
    """The variance as it was told; None for the usual one."""


def as_measured(
    state: State,
    suggestion: Suggestion,
    y: Tensor | float,
    *,
    time: float | Tensor | None,
    ok: Tensor | None,
    noise: float | Tensor | None,
    usual_noise: float,
    made_by: str | None,
    compared: bool,
    check: bool,
) -> Measured:
    """The arguments of :meth:`Strategy.tell`, whose documentation they share.

    Args:
        state: All that has been told.
        suggestion: What was measured.
        y: What was observed.
        time: When.
        ok: Where the measurement is good.
        noise: Its variance.
        usual_noise: That of an observation told without one.
        made_by: By which a suggestion tells that it is of the strategy that is told of it.
        compared: Whether the prediction of the suggestion is compared with the observation.
        check: Whether to look at the values.

    Raises:
        InputDataError: If any does not fit the state.
    """
    if check:
        require_suggestion(suggestion, made_by)
    when = suggestion.time if time is None else as_time(state, time, "time")
    y = _as_observation(state, y)
    if check:
        _check_kind(state, suggestion, y, when, ok)
        check_suggestion(state, suggestion, compared=compared)
    given = usual_noise if noise is None else noise
    variance = _as_noise(state, given, ok, check=check and noise is not None)
    if check:
        _check_size(y, variance)
    if ok is not None:
        y = torch.where(ok, y, 0.0)
    least = _least_told(given, wait=check)
    return Measured(suggestion, y, variance, when, least, ok, noise)


def _as_observation(state: State, y: Tensor | float) -> Tensor:
    """A single number as a tensor, where there is one trial; anything else as it came."""
    number = isinstance(y, (int, float)) and not isinstance(y, bool)
    if number and state.time.dim() == 0:
        return state.basis.variance.new_full((), y)  # type: ignore[arg-type]
    return y  # type: ignore[return-value]


def _check_kind(
    state: State, suggestion: Suggestion, y: Tensor, time: Tensor, ok: Tensor | None
) -> None:
    """Raise an ``InputDataError`` unless an observation fits the state and can be learned from."""
    if not isinstance(y, Tensor):
        refuse_masked("y", y)
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
    require_forward(state, time, "time")


def _check_size(y: Tensor, variance: Tensor) -> None:
    """Raise an ``InputDataError`` unless observations are finite and can be squared.

    Args:
        y: `batch_shape`.
        variance: Their noise variances, infinite where a measurement failed, `batch_shape`.
    """
    # What is computed has y in units of the noise, too.
    if y.dim() == 0 and abs(float(y)) <= largest(y.dtype) * min(1.0, float(variance) ** 0.5):
        return  # a trial alone asks as numbers, which is faster
    most = largest(y.dtype) * variance.sqrt().clamp_max(1)
    good = (y.abs() <= most) | variance.isinf()
    if bool(good.all()):
        return
    require_trials(
        y.isfinite() | variance.isinf(),
        y,
        "as observation y is not finite",
        "pass ok=False for a measurement that failed, or repair it.",
    )
    require_trials(
        good,
        y,
        f"as observation y is too large for {y.dtype}, whose limit under this noise is",
        "pass ok=False for a measurement that failed, or choose another unit.",
        limit=most,
    )


def _as_noise(state: State, noise: float | Tensor, ok: Tensor | None, *, check: bool) -> Tensor:
    """Noise variances of an observation, infinite where it failed, `batch_shape`."""
    own = state.basis.variance
    if isinstance(noise, Tensor):
        if noise.dim() > 0:
            _require_batch("noise", noise, state)
        noise = noise.to(own).expand(state.time.shape)
    elif isinstance(noise, bool) or not isinstance(noise, numbers.Real):
        refuse_masked("noise", noise)
        raise InputDataError(
            f"noise is {shown(noise)}, but it must be a number; or a tensor with one per trial."
        )
    else:
        noise = repeated(float(noise), state.time.shape, own.dtype, own.device)
    if check:
        least = least_noise(state.basis.scale**2, own.dtype)
        require_trials(
            (noise >= least) & (noise <= largest(own.dtype)),
            noise,
            f"as noise variance is not positive and finite, from {least:.2g} to "
            f"{largest(own.dtype):g}",
            f"use {NEARLY_EXACT[own.dtype]:g} times the kernel's variance for nearly exact "
            "measurements.",
        )
    return noise if ok is None else torch.where(ok, noise, math.inf)


def _least_told(noise: float | Tensor, *, wait: bool) -> float:
    """A lower bound of noise variances told: 0 where a device would have to be waited for."""
    if not isinstance(noise, Tensor):
        return noise
    if noise.device.type != "cpu" and not wait:
        return 0.0
    return float(noise.min()) if noise.numel() > 0 else math.inf


def _require_batch(name: str, tensor: Tensor, state: State) -> None:
    if tensor.shape != state.time.shape:
        raise InputDataError(
            f"{name} has shape {tuple(tensor.shape)}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; give one value per trial."
        )
