"""Checks of the arguments that callers pass to strategies.

A public call checks its arguments once; internal methods rely on this check.
"""

from __future__ import annotations

import json
import math
import re
from itertools import zip_longest
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.gp.tensors import repeated
from botorch_tv.identity import describe, digest
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import (
    largest,
    latest,
    real_tensor,
    refuse_masked,
    require_trials,
    shown,
)

MARK = " #"
HINT = "; for a point chosen elsewhere pass strategy.suggestion_at(state, X)."
NEARLY_EXACT = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Noise variance of a nearly exact measurement, as a fraction of the kernel's variance."""


def least_noise(variance: float, dtype: torch.dtype) -> float:
    """The smallest noise variance that exceeds the rounding errors of a prior variance."""
    return 64 * torch.finfo(dtype).eps * variance


def fingerprinted(text: str, part: object) -> str:
    """A description of a component, followed by a fingerprint of its numbers, attributes and code.

    Args:
        text: The description of the component; different components may have the same description.
        part: The component, such as a kernel or a decay; possibly user-defined.

    Raises:
        ValueError: If the component cannot be described.
    """
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)  # memory addresses differ between processes
    whole = json.dumps(describe(part, text), sort_keys=True, default=str)
    return f"{text}{MARK}{digest(whole.encode())}"


def first_difference(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, str]:
    """Descriptions of the first component that differs between two strategies.

    Args:
        first: Components of the first strategy, as :func:`fingerprinted` returns them.
        second: Components of the second strategy, as :func:`fingerprinted` returns them.

    Returns:
        Two descriptions: the first describes the component of the first strategy, and the second
        describes the component of the second strategy.
    """
    pairs = zip_longest(first, second, fillvalue="")
    pair = next(pair for pair in pairs if len(set(pair)) > 1)
    was, now = (part.rpartition(MARK)[0] or "nothing" for part in pair)
    return was, now if now != was else "the same with other numbers, attributes or code"


def require_begun_with(state: State, parts: tuple[str, ...], rules: int) -> None:
    """Check that a state was computed with the components of a strategy.

    Args:
        state: A state of any strategy.
        parts: Components of this strategy, as :func:`fingerprinted` returns them.
        rules: Number of this strategy's retention rules that drop observations.

    Raises:
        InputDataError: If a component of the strategy differs from the state's.
    """
    begun, memories, differ = state.begun_with, len(state.memory) - 1, None
    if begun and parts and begun != parts:
        differ = first_difference(begun, parts)
    elif memories != rules:
        differ = f"{memories} rules of retention that forget", str(rules)
    if differ is not None:
        raise InputDataError(
            f"the state was begun with {differ[0]}, but this strategy has {differ[1]}; begin with "
            "strategy.init(domain) and add the observations again."
        )


def require_tensors(
    like: Tensor, *rows: tuple[str, object, tuple[int, ...], torch.dtype | None]
) -> None:
    """Check that values are tensors of the shape, dtype and device of a state.

    Args:
        like: A tensor of the state, of any shape. Every value must be on the device of ``like``;
            the default dtype is the dtype of ``like``.
        *rows: A tuple for each value: its name, the value, the required shape, and the required
            dtype (None for the default).

    Raises:
        InputDataError: If a value has another shape, dtype or device.
    """
    own, device = like.dtype, like.device
    for name, value, shape, kind in rows:
        dtype = own if kind is None else kind
        given = None
        if isinstance(value, Tensor):
            if value.shape == shape and value.dtype == dtype and value.device == device:
                continue
            given = f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
        refuse_masked(name, value)
        form = "a tensor" if shape else "a number, or a tensor"
        raise InputDataError(
            f"{name} is {given or shown(value)}, but it must be {form} of shape {tuple(shape)}, "
            f"{dtype} on {device}; give a value for each trial, torch.tensor({name}, "
            f"dtype={dtype})."
        )


def require_forward(state: State, time: Tensor, name: str) -> None:
    """Check that a time does not lie before the newest observation.

    Args:
        state: The current state.
        time: The time, `batch_shape`.
        name: Name of the time in the error message.

    Raises:
        InputDataError: If the time lies before the newest observation in any trial.
    """
    newest = state.data.time
    if state.data.rounds > 0 and not bool((time >= newest).all()):
        require_trials(
            time >= newest,
            time,
            f"as {name} lies before the newest observation, at",
            "time does not run backwards; pass observations in order of time.",
            limit=newest,
        )


def as_time(state: State, value: float | Tensor, name: str) -> Tensor:
    """A copy of a time as a tensor, `batch_shape`, float64.

    Args:
        state: The current state.
        value: The time, a scalar or `batch_shape`.
        name: Name of the time in the error message.

    Raises:
        InputDataError: If the shape does not fit, or if a time is infinite, NaN or too large.
    """
    time, most = _of_trials(name, value, state.data.time, state), latest(torch.float64)
    time = time.clone() if isinstance(value, Tensor) else time  # the caller may modify the tensor
    require_trials(
        time.abs() <= most,
        time,
        f"is no valid {name}: a time must be finite, and at most {most:.0f} in size, because "
        "larger neighbouring times are equal by rounding",
        "count from an origin of your own, in a longer unit.",
    )
    return time


def as_noise(
    state: State, noise: float | Tensor | None, default: float, least: float, check: bool
) -> tuple[Tensor, float]:
    """The noise variance of an observation, and a lower bound of it.

    Args:
        state: The current state.
        noise: The noise variance, a scalar or `batch_shape`, as a caller passes it.
        default: The noise variance if ``noise`` is None.
        least: The smallest variance that ``noise`` may be.
        check: Whether to validate the values.

    Returns:
        The noise variance, `batch_shape`, and a number that it does not fall below; the number is 0
            if finding a larger number would wait for a device.

    Raises:
        InputDataError: If the shape does not fit, or if a variance is not positive and finite.
    """
    own, shape = state.data.prior.variance, state.data.time.shape
    if noise is None:
        return repeated(default, shape, own.dtype, own.device), default
    variance = _of_trials("noise", noise, own, state)
    if check:
        high = largest(own.dtype)
        good = (variance >= least) & (variance <= high)
        text = f"as noise variance is not positive and finite, from {least:.2g} to {high:g}"
        fix = f"use {NEARLY_EXACT[own.dtype]:g} x the kernel's variance if y is exact."
        require_trials(good, variance, text, fix)
    if isinstance(noise, (int, float)):
        return variance, noise
    # Only a check may read a value from a GPU, because reading waits for the GPU.
    looks = (check or variance.device.type == "cpu") and variance.numel() > 0
    return variance, float(variance.min()) if looks else 0.0


def _of_trials(name: str, value: float | Tensor, like: Tensor, state: State) -> Tensor:
    """A number, or a number per trial, as a tensor, `batch_shape`."""
    shape = state.data.time.shape
    refuse_masked(name, value)
    given = real_tensor(value, like)
    if given is None or given.shape not in (Size(), shape):
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a number, or a tensor with a number "
            f"per trial, of shape {tuple(shape)}."
        )
    return given.expand(shape)


def as_context(state: State, context: Tensor | None) -> Tensor | None:
    """The context of a round, `batch_shape x c`; None if the domain has none.

    Args:
        state: The current state.
        context: The context, `batch_shape x c`, as a caller passes it.

    Raises:
        InputDataError: If the context does not fit the domain, or if a number in the context is
            infinite, NaN or too large.
    """
    domain, own = state.domain, state.data.prior.variance
    if domain.columns == domain.dim:
        if context is None:
            return None
        raise InputDataError(f"context is {shown(context)}, but {domain!r} takes none; omit it.")
    wanted = (*state.data.time.shape, domain.columns - domain.dim)
    require_tensors(own, ("context", context, wanted, None))
    assert context is not None
    most = largest(own.dtype)
    require_trials(
        (context.abs() <= most).all(-1),
        context.abs().amax(-1),
        f"is no valid context: its numbers must be finite and at most {most:g} in size",
        "repair it, or choose another unit.",
    )
    return context


def located(state: State, X: Tensor, points: Size) -> Tensor:
    """Points as the log stores them, `batch_shape x points` or `batch_shape x points x d`.

    Args:
        state: The current state.
        X: The points, `batch_shape x points x d`.
        points: Shape of each trial's array of points, without the dimension d.

    Raises:
        InputDataError: If the shape does not fit, or if a point is not in the domain.
    """
    wanted = (*state.data.time.shape, *points, state.domain.columns)
    require_tensors(state.data.prior.variance, ("X", X, wanted, None))
    return state.domain.locate(X)


class Measured(NamedTuple):
    """A checked observation of every trial."""

    suggestion: Suggestion
    """The point that was measured, and its prediction."""
    y: Tensor
    """The observed value, `batch_shape`; 0 where the measurement failed."""
    noise: Tensor
    """Noise variance, infinite where the measurement failed, `batch_shape`."""
    time: Tensor
    """Time of the measurement, `batch_shape`, float64."""
    least_noise: float
    """A lower bound on the noise variances."""
    ok: Tensor | None
    """Whether the measurement succeeded, `batch_shape`, bool; None if all succeeded."""
    given_noise: float | Tensor | None
    """The noise variance as the caller gave it; None for the default."""


def require_suggestion(
    state: State, suggestion: Suggestion, made_by: str | None, *, compared: bool
) -> None:
    """Check that a suggestion belongs to a state and a strategy.

    Args:
        state: The newest state.
        suggestion: The suggestion.
        made_by: Fingerprint of the strategy; None if the strategy has no fingerprint.
        compared: Whether the strategy compares the suggestion's prediction with the observation.

    Raises:
        InputDataError: If the suggestion belongs to another strategy or domain.
    """
    X, index, mean, sd, sqrt_beta, time, maker, *_ = suggestion
    if maker is not None and made_by is not None and maker != made_by:
        was, now = first_difference((maker,), (made_by,))
        raise InputDataError(
            f"the suggestion belongs to {was}, not to {now}; pass it to that strategy's "
            f"tell(){HINT}"
        )
    domain, own, shape = state.domain, state.data.prior.variance, state.data.time.shape
    require_tensors(
        own,
        ("suggestion.X", X, (*shape, domain.columns), None),
        ("suggestion.mean", mean, shape, None),
        ("suggestion.sd", sd, shape, None),
        ("suggestion.sqrt_beta", sqrt_beta, shape, None),
        ("suggestion.time", time, shape, torch.float64),
    )
    if compared:
        reached = mean.abs() + sd.abs()
        text = "was predicted, and a trigger cannot compare an observation with this value"
        fix = "pass strategy.suggestion_at(state, X)."
        require_trials(reached < math.inf, reached, text, fix)
    if not isinstance(domain, Grid):
        if index is not None:
            raise InputDataError(
                f"the suggestion names the arm of a grid, but the state is on {domain!r}{HINT}"
            )
        domain.locate(X)
        return
    if isinstance(index, Tensor) and index.dtype == torch.int64 and index.shape == shape:
        arm = index.clamp(0, len(domain.X) - 1)
        if torch.equal(arm, index) and torch.equal(domain.points(arm, X), X):
            return
    raise InputDataError(
        f"the suggestion's index and point do not belong to the same arm of {domain!r}{HINT}"
    )
