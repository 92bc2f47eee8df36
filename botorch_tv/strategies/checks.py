"""What a strategy refuses, and the tensors it makes of what it accepts."""

from __future__ import annotations

import math
from dataclasses import is_dataclass

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition import Width
from botorch_tv.forgetting import Retention
from botorch_tv.identity import is_ours
from botorch_tv.inference.process import Process
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.fingerprints import first_difference
from botorch_tv.strategies.state import State
from botorch_tv.validation import (
    largest,
    latest,
    refuse_masked,
    require,
    require_number,
    require_trials,
    shown,
)


def require_place(name: str, domain: object, batch_shape: object) -> None:
    """Raise a ``ValueError`` unless a state can be made for a domain and a shape of trials.

    Args:
        name: Of the strategy.
        domain: Where it is to choose.
        batch_shape: Of the trials.
    """
    require(
        isinstance(domain, Domain),
        f"{name}.init: domain is {shown(domain)}, but it must be a Grid or a Box; give one such as "
        "Grid.regular(points=50, dim=2).",
    )
    require(
        isinstance(batch_shape, (tuple, list)),
        f"{name}.init: batch_shape is {batch_shape!r}; pass a tuple such as (1000,).",
    )


def require_state(state: object) -> None:
    """Raise an ``InputDataError`` saying how a state is come by, unless it is one."""
    if isinstance(state, State):
        return
    fix = "state = strategy.init(domain) makes the first."
    if isinstance(state, tuple) and any(isinstance(one, State) for one in state):
        fix = "tell() gives a state and what happened: state, info = strategy.tell(...)."
    elif isinstance(getattr(state, "state", None), State):
        fix = "pass its .state, or call its own method of this name."
    raise InputDataError(
        f"state is {shown(state)}, but it must be what init() or tell() gave; {fix}"
    )


def require_begun_with(state: State, here: tuple[str, ...], rules: tuple[Retention, ...]) -> None:
    """Raise an ``InputDataError`` if a state was computed with other parts than a strategy has.

    Args:
        state: Of whichever strategy.
        here: Parts of the one that goes on with it, in words.
        rules: Of retention, that it has.
    """
    there, fix = state.begun_with, "tell a state of strategy.init(domain) what was measured."
    if there and here and there != here:
        was, now = first_difference(there, here)
        raise InputDataError(f"the state was begun with {was}, but this strategy has {now}; {fix}")
    memories = state.memory.retention
    if len(memories) != len(rules):
        raise InputDataError(
            f"the state was begun with {len(memories)} rules of retention that forget, but this "
            f"strategy has {len(rules)}; {fix}"
        )


def as_width(width: Width, value: object, like: Tensor) -> float | Tensor:
    """√beta as a width answered it, a number or one per trial.

    Args:
        width: That answered; what those of this package answer is not looked at.
        value: Its answer.
        like: One number per trial, of the dtype and device wanted.

    Raises:
        InputDataError: If it is neither, negative, NaN or infinite; on a GPU, which is not waited
            for, numbers of trials may be so.
    """
    if is_ours(type(width).sqrt_beta):
        return value  # type: ignore[return-value]
    real = isinstance(value, Tensor) and not value.is_complex() and value.dtype != torch.bool
    if isinstance(value, Tensor) and real and value.shape in (Size(), like.shape):
        found = value.to(like).expand_as(like)
        if like.device.type == "cpu":
            good = (found >= 0) & found.isfinite()
            require_trials(
                good, found, f"is the √beta of {width!r}", "it is finite and at least 0."
            )
        return found
    if isinstance(value, Tensor) or type(value) not in (float, int, np.float64, np.float32):
        given = tuple(value.shape) if isinstance(value, Tensor) else shown(value)
        raise InputDataError(
            f"the √beta of {width!r} is {given}, but it must be a number, or one for each trial, "
            f"a tensor {tuple(like.shape)}; see WidthContext for what it may depend on."
        )
    number = float(value)  # type: ignore[arg-type]
    if not 0 <= number < math.inf:
        raise InputDataError(
            f"the √beta of {width!r} is {number:g}, but it must be finite and at least 0; 0 never "
            "explores."
        )
    return number


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
    if not real:
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a number; or a tensor with one per trial."
        )
    if time.dim() > 0 and time.shape != state.time.shape:
        raise InputDataError(
            f"{name} has shape {tuple(time.shape)}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; give one number, or one per trial."
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


def as_context(state: State, context: Tensor | None) -> Tensor | None:
    """The context of a round, `batch_shape x c`; None if the domain has none."""
    known = state.domain.columns - state.domain.dim
    most = largest(state.basis.variance.dtype)
    if context is None:
        if known == 0:
            return None
        raise InputDataError(
            f"the domain has a context of {known} coordinates; pass context=, a tensor of shape "
            f"{(*state.time.shape, known)}."
        )
    refuse_masked("context", context)
    wanted = (*state.time.shape, known)
    if not isinstance(context, Tensor) or (*context.shape,) != wanted or known == 0:
        described = tuple(context.shape) if isinstance(context, Tensor) else repr(context)
        raise InputDataError(
            f"context is {described}, but this state needs {wanted}: batch_shape, then the "
            "context_dim of its Box; a domain without context takes none."
        )
    require_same_kind("context", context, state)
    require_trials(
        (context.abs() <= most).all(-1),
        context.abs().amax(-1),
        f"is no valid context, whose numbers are finite and at most {most:g} in size",
        "repair it, or choose another unit.",
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


def require_choice(exploration: object, choice: object, state: State) -> None:
    """Raise an ``InputDataError`` unless what an exploration chose is a choice of the domain."""
    domain, shape = state.domain, tuple(state.time.shape)
    on_arms = isinstance(domain, Grid)
    own, place = state.basis.variance.dtype, state.basis.variance.device
    wanted, dtype = (shape, torch.int64) if on_arms else ((*shape, domain.dim), own)
    kind = "numbers of arms, int64" if on_arms else f"points, {own}"
    form = (wanted, dtype, place)
    if not isinstance(choice, Tensor) or (tuple(choice.shape), choice.dtype, choice.device) != form:
        given = (
            f"{choice.dtype} of shape {tuple(choice.shape)} on {choice.device}"
            if isinstance(choice, Tensor)
            else shown(choice)
        )
        raise InputDataError(
            f"{type(exploration).__name__} chose {given}, but a choice is {kind} of shape "
            f"{wanted} on {place}; return what candidates.argmax(score) or candidates.anywhere() "
            "gives."
        )
    if choice.device.type != "cpu":
        return
    if isinstance(domain, Grid):
        off = choice[(choice < 0) | (choice >= len(domain))]
        if len(off) > 0:
            raise InputDataError(
                f"{type(exploration).__name__} chose arm {int(off[0])}, but {domain!r} has "
                f"arms 0 to {len(domain) - 1}."
            )
    elif isinstance(domain, Box):
        domain.require_inside(choice, f"the choice of {type(exploration).__name__} ")


NEARLY_EXACT = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Noise variance of a measurement that is nearly exact, as a share of the kernel's."""


def least_noise(variance: float, dtype: torch.dtype) -> float:
    """The smallest noise variance that is still told from rounding beside a prior variance."""
    return 64 * torch.finfo(dtype).eps * variance


def require_scales(
    name: str, process: Process, width: Width, variance: float, dtype: torch.dtype
) -> None:
    """Raise unless what a strategy is made of can be computed with in a dtype.

    Args:
        name: Of the strategy.
        process: Its noise, mean and decay are looked at.
        width: Its numbers are looked at.
        variance: Largest prior variance.
        dtype: Of all that is computed.

    Raises:
        InputDataError: If the kernel's variance leaves the range of the dtype.
        ValueError: If another number does.
    """
    most = largest(dtype)
    if not 1 / most <= variance <= most:
        raise InputDataError(
            f"the kernel's variance is {variance:g}, but in {dtype} it lies between {1 / most:g} "
            f"and {most:g}; measure the objective in another unit."
        )
    least = least_noise(variance, dtype)
    require_number(
        f"{name}: noise",
        process.noise,
        f"[{least:g}, {most:g}]",
        f"in {dtype}, beside a kernel of variance {variance:g}; use {NEARLY_EXACT[dtype]:g} times "
        "that variance for nearly exact measurements.",
    )
    if not isinstance(process.mean, str):
        limit = most * min(1.0, math.sqrt(process.noise))
        require_number(
            f"{name}: mean",
            process.mean,
            f"[{-limit:g}, {limit:g}]",
            f"in {dtype}; measure the objective in another unit.",
        )
    growth = float(process.decay.prior_variance(torch.ones((), dtype=torch.float64, device="cpu")))
    require_number(
        f"{name}: growth of the variance by {process.decay!r}",
        growth * variance,
        f"[0, {most:g}]",
        f"per unit of time, in {dtype}; count time in a shorter unit.",
    )
    numbers_of_width: dict[str, object] = vars(width) if is_dataclass(width) else {}
    for parameter, value in numbers_of_width.items():
        if isinstance(value, (int, float)):
            require_number(
                f"{type(width).__name__}: {parameter}",
                value,
                f"[{-most:g}, {most:g}]",
                f"in {dtype}; use float64, or a smaller one.",
            )
