"""Where randomised strategies get their random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.strategies.state import State

Generators = torch.Generator | Sequence[torch.Generator]


@runtime_checkable
class Draws(Protocol):
    """Random numbers for a batch of trials."""

    def normal(self, *event_shape: int) -> Tensor:
        """Standard normal variates, `batch_shape x event_shape`."""

    def uniform(self, *event_shape: int) -> Tensor:
        """Variates uniform on [0, 1), `batch_shape x event_shape`."""


@runtime_checkable
class NumberedDraws(Draws, Protocol):
    """Random numbers that need not be drawn to be passed over."""

    def leading_normals(self, count: int, room: int) -> Tensor:
        """The first ``count`` of the next ``room`` variates, `batch_shape x count`."""


def leading_normals(draws: Draws, count: int, room: int) -> Tensor:
    """The first of a fixed number of standard normal variates.

    How many a draw takes may be one more or less on another processor, but what is drawn later
    stays the same.

    Args:
        draws: Where they come from.
        count: How many are wanted.
        room: How many are used up, at least as many.

    Returns:
        `batch_shape x count`.
    """
    if isinstance(draws, NumberedDraws):
        return draws.leading_normals(count, room)
    return draws.normal(room)[..., :count]


@dataclass(frozen=True)
class _Trials:
    """Which trials numbers are for."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class _Shared:
    """All trials draw from one generator."""

    def __init__(self, generator: torch.Generator | None, trials: _Trials) -> None:
        self._generator, self._trials = generator, trials

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Drawing, event_shape: tuple[int, ...]) -> Tensor:
        shape = (*self._trials.shape, *event_shape)
        return _drawn(draw, shape, self._generator, self._trials)


class _OnePerTrial:
    """Every trial draws from a generator of its own, so that it does not notice the others."""

    def __init__(self, generators: Sequence[torch.Generator], trials: _Trials) -> None:
        self._generators, self._trials = generators, trials

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Drawing, event_shape: tuple[int, ...]) -> Tensor:
        own = self._trials
        rows = [_drawn(draw, event_shape, one, own) for one in self._generators]
        return torch.stack(rows).view((*own.shape, *event_shape))


class Drawing(Protocol):
    """``torch.randn`` or ``torch.rand``."""

    def __call__(
        self,
        size: tuple[int, ...],
        *,
        generator: torch.Generator | None,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Tensor: ...


def _drawn(
    draw: Drawing, shape: tuple[int, ...], generator: torch.Generator | None, trials: _Trials
) -> Tensor:
    """Numbers drawn where the generator is, and brought to where the trials are."""
    place = trials.device if generator is None else generator.device
    drawn = draw(shape, generator=generator, dtype=trials.dtype, device=place)
    return drawn.to(trials.device)


def draws_from(generator: Generators | Draws | None, state: State) -> Draws:
    """Random numbers for the trials of a state.

    Args:
        generator: One for all trials, one per trial, anything that draws by itself, or None for
            PyTorch's default generator. A generator on another device than the state draws there,
            and what it draws is copied, for which a GPU waits.
        state: Whose trials they are for.

    Raises:
        InputDataError: If there is not one generator per trial, or it is none at all.
    """
    own = state.basis.variance
    return draws_for(generator, state.time.shape, dtype=own.dtype, device=own.device)


def draws_for(
    generator: Generators | Draws | None,
    batch_shape: Sequence[int],
    *,
    dtype: torch.dtype,
    device: torch.device,
) -> Draws:
    """Random numbers for trials of a shape.

    Args:
        generator: As in :func:`draws_from`.
        batch_shape: Shape of the trials.
        dtype: Of the numbers, unless the generator draws by itself.
        device: Where they are drawn, unless the generator draws by itself.

    Raises:
        InputDataError: As :func:`draws_from`.
    """
    trials = _Trials(tuple(batch_shape), dtype, device)
    if generator is None or isinstance(generator, torch.Generator):
        return _Shared(generator, trials)
    if isinstance(generator, Draws):
        return generator
    number = math.prod(trials.shape)
    generators = list(generator) if isinstance(generator, Sequence) else [generator]
    if not all(isinstance(one, torch.Generator) for one in generators):
        raise InputDataError(
            f"generator is {generator!r}; pass a torch.Generator, or a list with one per trial."
        )
    if len(generators) != number:
        raise InputDataError(
            f"generator holds {len(generators)} generators, but there are {number} trials; "
            "pass one for all, or one per trial."
        )
    return _OnePerTrial(generators, trials)
