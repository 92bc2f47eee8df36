"""What public calls of strategies accept, as tensors of a state's trials, and what they refuse.

A round inside checks nothing again.
"""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.identity import describe, digest
from botorch_tv.inference.data import Present
from botorch_tv.inference.tensors import repeated
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import largest, latest, refuse_masked, require_trials, shown

MARK = " #"
ELSEWHERE = "; for a point chosen elsewhere pass strategy.suggestion_at(state, X)."
NEARLY_EXACT = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Noise variance of a measurement that is nearly exact, as a share of the kernel's."""


def least_noise(variance: float, dtype: torch.dtype) -> float:
    """The smallest noise variance that is more than rounding beside a prior variance."""
    return 64 * torch.finfo(dtype).eps * variance


def fingerprinted(words: str, part: object) -> str:
    """A part in words, with a fingerprint of what the words leave out: numbers, attributes, code.

    Args:
        words: The words; different parts may share them.
        part: A part, possibly user-defined.

    Raises:
        ValueError: If it cannot be described.
    """
    whole = json.dumps(describe(part, words), sort_keys=True, default=str)
    return f"{words}{MARK}{digest(whole.encode())}"


def first_difference(there: tuple[str, ...], here: tuple[str, ...]) -> tuple[str, str]:
    """The first part that differs, in words: as it was, and as it is.

    Args:
        there: Parts as given by :func:`fingerprinted`.
        here: Parts of another strategy.
    """
    one, other = next(pair for pair in zip_longest(there, here, fillvalue="") if len(set(pair)) > 1)
    was, now = (part.rpartition(MARK)[0] or "nothing" for part in (one, other))
    return was, now if now != was else "one of other numbers, attributes or code"


def require_state(state: object) -> None:
    """Raise an ``InputDataError`` unless it is a state."""
    if not isinstance(state, State):
        raise InputDataError(
            f"state is {shown(state)}, but it must be what init() or tell() gave: "
            "state = strategy.init(domain), and later state, info = strategy.tell(...)."
        )


def require_begun_with(state: State, here: tuple[str, ...], rules: int) -> None:
    """Raise an ``InputDataError`` if a state was computed with other parts than a strategy has.

    Args:
        state: Of whichever strategy.
        here: Parts of the one that goes on with it, in words.
        rules: How many rules of retention it has.
    """
    there, fix = state.begun_with, "tell a state of strategy.init(domain) what was measured."
    if there and here and there != here:
        was, now = first_difference(there, here)
        raise InputDataError(f"the state was begun with {was}, but this strategy has {now}; {fix}")
    memories = len(state.memory.retention)
    if memories != rules:
        raise InputDataError(
            f"the state was begun with {memories} rules of retention that forget, but this "
            f"strategy has {rules}; {fix}"
        )


def require_same_kind(name: str, tensor: Tensor, state: State) -> None:
    """Raise an ``InputDataError`` unless dtype and device are the state's."""
    own = state.basis.variance
    if tensor.dtype != own.dtype or tensor.device != own.device:
        raise InputDataError(
            f"{name} is {tensor.dtype} on {tensor.device}, but the state is {own.dtype} on "
            f"{own.device}; use {name}.to(dtype={own.dtype}, device='{own.device}')."
        )


def require_forward(state: State, time: Tensor, name: str) -> None:
    """Raise an ``InputDataError`` if a time lies before the newest observation."""
    if state.data.rounds > 0:
        require_trials(
            time >= state.data.time,
            time,
            f"as {name} lies before the newest observation, at",
            "time does not run backwards; tell observations in order of time.",
            limit=state.data.time,
        )


def as_time(state: State, value: float | Tensor, name: str) -> Tensor:
    """A time as a tensor of its own, `batch_shape`, float64; a caller's may change in place."""
    real = not isinstance(value, bool) and not (isinstance(value, Tensor) and value.is_complex())
    try:
        if isinstance(value, (int, float)) and real:
            time = state.time.new_full((), value)  # a tensor made elsewhere would have to be copied
        elif real:
            refuse_masked(name, value)
            time = torch.as_tensor(value, dtype=torch.float64, device=state.time.device).clone()
    except (TypeError, ValueError, RuntimeError, OverflowError):
        real = False
    if not real or time.shape not in (Size(), state.time.shape):
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a number, or a tensor with one per trial, "
            f"of shape {tuple(state.time.shape)}."
        )
    time = time.expand(state.time.shape)
    most = latest(torch.float64)
    require_trials(
        time.abs() <= most,
        time,
        f"is no valid {name}: times are finite, and in size at most {most:.0f}, where one is still "
        "told from the next",
        "count from an origin of your own, in a longer unit.",
    )
    return time


def clock(state: State, now: float | Tensor | None, step: float | Tensor) -> Present:
    """The present, and the time from which lags are counted.

    Args:
        state: All that has been observed.
        now: The present; a step after the newest observation unless given.
        step: From one round to the next, a number or `batch_shape`.
    """
    if now is None:
        newest = state.data.time
        return Present(newest + step, newest)
    present = as_time(state, now, "now")
    require_forward(state, present, "now")
    return Present(present, present)


def as_context(state: State, context: Tensor | None) -> Tensor | None:
    """The context of a round, `batch_shape x c`; None if the domain has none."""
    given = state.domain.columns - state.domain.dim
    if context is None and given == 0:
        return None
    refuse_masked("context", context)
    wanted = (*state.time.shape, given)
    if not isinstance(context, Tensor) or (*context.shape,) != wanted or given == 0:
        described = tuple(context.shape) if isinstance(context, Tensor) else repr(context)
        raise InputDataError(
            f"context is {described}, but this state needs {wanted}: batch_shape, then the "
            "context_dim of its Box; pass context=, which a domain without context takes none of."
        )
    require_same_kind("context", context, state)
    most = largest(context.dtype)
    require_trials(
        (context.abs() <= most).all(-1),
        context.abs().amax(-1),
        f"is no valid context, whose numbers are finite and at most {most:g} in size",
        "repair it, or choose another unit.",
    )
    return context


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


class Measured(NamedTuple):
    """An observation of every trial, which has been checked."""

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
    given_noise: float | Tensor | None
    """The variance as it was given; None for the usual one."""


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
        state: Before the observation.
        suggestion: What was measured.
        y: What was observed.
        time: When.
        ok: Where the measurement is good.
        noise: Its variance.
        usual_noise: That of an observation given without one.
        made_by: By which a suggestion shows that the strategy itself made it.
        compared: Whether the prediction of the suggestion is compared with the observation.
        check: Whether to look at the values.

    Raises:
        InputDataError: If any does not fit the state.
    """
    own, shape = state.data.prior.variance, state.data.time.shape
    if check:
        require_suggestion(state, suggestion, made_by, compared=compared)
    when = suggestion.time if time is None else as_time(state, time, "time")
    if isinstance(y, (int, float)) and not isinstance(y, bool) and not shape:
        y = own.new_full((), y)
    if check:
        refuse_masked("y", y)
        require_forward(state, when, "time")
        for name, tensor, dtype in (("y", y, own.dtype), ("ok", ok, torch.bool)):
            if name == "ok" and ok is None:
                continue
            if (
                not isinstance(tensor, Tensor)
                or tensor.shape != shape
                or tensor.dtype != dtype
                or tensor.device != own.device
            ):
                raise InputDataError(_misfit(name, tensor, shape, dtype, own.device))
    assert isinstance(y, Tensor)
    if noise is None:
        variance = repeated(usual_noise, shape, own.dtype, own.device)
    else:
        variance = _given_noise(state, noise, check=check)
    if ok is not None:
        variance = torch.where(ok, variance, math.inf)
    if check:
        _require_size(y, variance)
    if ok is not None:
        y = torch.where(ok, y, 0.0)
    least = usual_noise if noise is None else _least(noise, wait=check)
    return Measured(suggestion, y, variance, when, least, ok, noise)


def require_suggestion(
    state: State, suggestion: object, made_by: str | None, *, compared: bool
) -> None:
    """Raise an ``InputDataError`` unless a suggestion belongs to this state and strategy."""
    if not isinstance(suggestion, Suggestion):
        raise InputDataError(
            f"suggestion is {shown(suggestion)}, but it must be what ask() gave" + ELSEWHERE
        )
    maker = suggestion.made_by
    if maker is not None and made_by is not None and maker != made_by:
        was, now = first_difference((maker,), (made_by,))
        raise InputDataError(
            f"the suggestion was made by {was}, but {now} is told of it, whose prediction and "
            "width are others" + ELSEWHERE
        )
    domain, own, shape = state.domain, state.data.prior.variance, state.data.time.shape
    X, index = suggestion.X, suggestion.index
    for name, tensor, size, dtype in (
        ("X", X, (*shape, domain.columns), own.dtype),
        ("mean", suggestion.mean, shape, own.dtype),
        ("sd", suggestion.sd, shape, own.dtype),
        ("sqrt_beta", suggestion.sqrt_beta, shape, own.dtype),
        ("time", suggestion.time, shape, torch.float64),
    ):
        if (
            not isinstance(tensor, Tensor)
            or tensor.shape != size
            or tensor.dtype != dtype
            or tensor.device != own.device
        ):
            raise InputDataError(
                _misfit(f"suggestion.{name}", tensor, size, dtype, own.device)
                + " Tell the state that made the suggestion, or a later one."
            )
    if compared:
        reached = suggestion.mean.abs() + suggestion.sd.abs()
        if not bool((reached < math.inf).all()):
            require_trials(
                reached < math.inf,
                reached,
                "was predicted, and a trigger cannot compare an observation with that",
                "pass strategy.suggestion_at(state, X).",
            )
    if not isinstance(domain, Grid):
        if index is not None:
            raise InputDataError(
                f"the suggestion names the arm of a grid, but the state is on {domain!r}{ELSEWHERE}"
            )
        domain.locate(X)
        return
    if (
        not isinstance(index, Tensor)
        or index.dtype != torch.int64
        or index.shape != shape
        or not bool(((index >= 0) & (index < len(domain))).all())
    ):
        raise InputDataError(f"the suggestion names no arm of {domain!r}{ELSEWHERE}")
    points = domain.points(index, X)
    if not torch.equal(points, X):
        apart = (points != X).any(-1)
        arm, point = index[apart][0].item(), X[apart][0].tolist()
        raise InputDataError(
            f"the suggestion is not of {domain!r}, whose arm {arm} is not at {point}{ELSEWHERE}"
        )


def _misfit(
    name: str, value: object, shape: Sequence[int], dtype: torch.dtype, place: torch.device
) -> str:
    given = shown(value)
    if isinstance(value, Tensor):
        given = f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
    number = "a number, or " if not shape else ""
    return (
        f"{name} is {given}, but it must be {number}a tensor of shape {tuple(shape)}, {dtype} on "
        f"{place}; give one value per trial, torch.tensor({name}, dtype={dtype})."
    )


def _require_size(y: Tensor, variance: Tensor) -> None:
    """Raise an ``InputDataError`` unless observations are finite and can be squared.

    Args:
        y: `batch_shape`.
        variance: Their noise variances, infinite where a measurement failed, `batch_shape`.
    """
    # What is computed has y in units of the noise, too.
    if y.dim() == 0 and abs(float(y)) <= largest(y.dtype) * min(1.0, float(variance) ** 0.5):
        return  # a trial alone asks as numbers, which is faster
    most = largest(y.dtype) * variance.sqrt().clamp_max(1)
    require_trials(
        (y.abs() <= most) | variance.isinf(),
        y,
        f"as observation y is not finite, or too large for {y.dtype}, whose limit under this noise "
        "is",
        "pass ok=False for a measurement that failed, or choose another unit.",
        limit=most,
    )


def _given_noise(state: State, noise: float | Tensor, *, check: bool) -> Tensor:
    """Noise variances given with an observation, `batch_shape`."""
    own, shape = state.data.prior.variance, state.data.time.shape
    refuse_masked("noise", noise)
    real = isinstance(noise, (Tensor, numbers.Real)) and not isinstance(noise, bool)
    if not real or (isinstance(noise, Tensor) and noise.shape not in (Size(), shape)):
        raise InputDataError(
            f"noise is {shown(noise)}, but it must be a number, or a tensor with one per trial, "
            f"of shape {tuple(shape)}."
        )
    variance = torch.as_tensor(noise, dtype=own.dtype, device=own.device).expand(shape)
    if check:
        least, most = least_noise(state.basis.scale**2, own.dtype), largest(own.dtype)
        require_trials(
            (variance >= least) & (variance <= most),
            variance,
            f"as noise variance is not positive and finite, from {least:.2g} to {most:g}",
            f"use {NEARLY_EXACT[own.dtype]:g} times the kernel's variance for nearly exact "
            "measurements.",
        )
    return variance


def _least(noise: float | Tensor, *, wait: bool) -> float:
    """A lower bound of noise variances: 0 where a device would have to be waited for."""
    if not isinstance(noise, Tensor):
        return noise
    if noise.device.type != "cpu" and not wait:
        return 0.0
    return float(noise.min()) if noise.numel() > 0 else math.inf
