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


@dataclass(frozen=True)
class _Drawn:
    """Numbers of one generator for all trials, or of one for each, which notices no others."""

    generators: Sequence[torch.Generator | None]
    apart: bool
    """Whether there is one for each trial."""
    shape: tuple[int, ...]
    """Batch shape of the trials."""
    dtype: torch.dtype
    device: torch.device

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Drawing, event_shape: tuple[int, ...]) -> Tensor:
        whole = (*self.shape, *event_shape)
        if not self.apart:
            return self._from(self.generators[0], draw, whole)
        rows = [self._from(one, draw, event_shape) for one in self.generators]
        return torch.stack(rows).view(whole)

    def _from(
        self, generator: torch.Generator | None, draw: Drawing, size: tuple[int, ...]
    ) -> Tensor:
        """Numbers drawn where a generator is, and brought to where the trials are."""
        place = self.device if generator is None else generator.device
        drawn = draw(size, generator=generator, dtype=self.dtype, device=place)
        return drawn.to(self.device)


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
    shape = tuple(batch_shape)
    if generator is None or isinstance(generator, torch.Generator):
        return _Drawn([generator], False, shape, dtype, device)
    if isinstance(generator, Draws):
        return generator
    number = math.prod(shape)
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
    return _Drawn(generators, True, shape, dtype, device)
