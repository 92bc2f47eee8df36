"""What public calls of strategies accept, as tensors of a state's trials, and what they refuse.

A round inside checks nothing again.
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

from botorch_tv.identity import describe, digest
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
    words = re.sub(r" at 0x[0-9a-fA-F]+", "", words)  # places in memory differ between processes
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


def require_begun_with(state: State, here: tuple[str, ...], rules: int) -> None:
    """Raise an ``InputDataError`` if a state was computed with other parts than a strategy has.

    Args:
        state: Of whichever strategy.
        here: Parts of the one that goes on with it, in words.
        rules: How many rules of retention it has.
    """
    there, memories, differ = state.begun_with, len(state.memory) - 1, None
    if there and here and there != here:
        differ = first_difference(there, here)
    elif memories != rules:
        differ = f"{memories} rules of retention that forget", str(rules)
    if differ is not None:
        raise InputDataError(
            f"the state was begun with {differ[0]}, but this strategy has {differ[1]}; tell a "
            "state of strategy.init(domain) what was measured."
        )


def require_tensors(
    like: Tensor, *rows: tuple[str, object, tuple[int, ...], torch.dtype | None]
) -> None:
    """Raise an ``InputDataError`` unless some values are tensors as the state's are.

    Args:
        like: Gives the device, and the dtype unless a row does.
        *rows: Of each value its name, itself, and the shape and the dtype that it must have.
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
            f"{dtype} on {device}; give each trial its own, torch.tensor({name}, dtype={dtype})."
        )


def require_forward(state: State, time: Tensor, name: str) -> None:
    """Raise an ``InputDataError`` if a time lies before the newest observation."""
    newest = state.data.time
    if state.data.rounds > 0 and not bool((time >= newest).all()):
        require_trials(
            time >= newest,
            time,
            f"as {name} lies before the newest observation, at",
            "time does not run backwards; tell observations in order of time.",
            limit=newest,
        )


def as_time(state: State, value: float | Tensor, name: str) -> Tensor:
    """A time as a tensor of its own, `batch_shape`, float64; a caller's may change in place."""
    own = state.data.time
    refuse_masked(name, value)
    if isinstance(value, (int, float)):
        time = own.new_full((), value)  # a tensor made elsewhere would have to be copied
    else:
        time = torch.as_tensor(value, device=own.device).to(torch.float64, copy=True)
    if time.shape not in (Size(), own.shape):
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a number, or a tensor with one per trial, "
            f"of shape {tuple(own.shape)}."
        )
    time, most = time.expand(own.shape), latest(torch.float64)
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
    domain, own = state.domain, state.data.prior.variance
    if domain.columns == domain.dim:
        if context is None:
            return None
        raise InputDataError(f"context is {shown(context)}, but {domain!r} takes none; give none.")
    wanted = (*state.data.time.shape, domain.columns - domain.dim)
    require_tensors(own, ("context", context, wanted, None))
    assert context is not None
    most = largest(own.dtype)
    require_trials(
        (context.abs() <= most).all(-1),
        context.abs().amax(-1),
        f"is no valid context, whose numbers are finite and at most {most:g} in size",
        "repair it, or choose another unit.",
    )
    return context


def located(state: State, X: Tensor, points: Size) -> Tensor:
    """Points `batch_shape x points x d` as a log keeps them."""
    wanted = (*state.data.time.shape, *points, state.domain.columns)
    require_tensors(state.data.prior.variance, ("X", X, wanted, None))
    return state.domain.locate(X)


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


def require_suggestion(
    state: State, suggestion: Suggestion, made_by: str | None, *, compared: bool
) -> None:
    """Raise an ``InputDataError`` unless a suggestion belongs to this state and strategy.

    Args:
        state: The newest.
        suggestion: The suggestion.
        made_by: The mark of the strategy that it is given to.
        compared: Whether its prediction is compared with the observation.
    """
    X, index, mean, sd, sqrt_beta, time, maker, _ = suggestion
    if maker is not None and made_by is not None and maker != made_by:
        was, now = first_difference((maker,), (made_by,))
        raise InputDataError(
            f"the suggestion was made by {was}, but {now} is told of it, whose prediction and "
            f"width are others{ELSEWHERE}"
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
        if not bool((reached < math.inf).all()):
            what = "was predicted, and a trigger cannot compare an observation with that"
            fix = "pass strategy.suggestion_at(state, X)."
            require_trials(reached < math.inf, reached, what, fix)
    if not isinstance(domain, Grid):
        if index is not None:
            raise InputDataError(
                f"the suggestion names the arm of a grid, but the state is on {domain!r}{ELSEWHERE}"
            )
        domain.locate(X)
        return
    if isinstance(index, Tensor) and index.dtype == torch.int64 and index.shape == shape:
        arm = index.clamp(0, len(domain.X) - 1)
        if torch.equal(arm, index) and torch.equal(domain.points(arm, X), X):
            return
    raise InputDataError(f"the suggestion names no arm of {domain!r} at its point{ELSEWHERE}")
