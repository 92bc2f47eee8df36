"""Where randomised strategies get their random numbers."""

from __future__ import annotations

from collections.abc import Sequence
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


class _Shared:
    """All trials draw from one generator."""

    def __init__(self, generator: torch.Generator | None, state: State) -> None:
        self._generator, self._state = generator, state

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Drawing, event_shape: tuple[int, ...]) -> Tensor:
        own, shape = self._state.basis.variance, (*self._state.time.shape, *event_shape)
        return draw(shape, generator=self._generator, dtype=own.dtype, device=own.device)


class _OnePerTrial:
    """Every trial draws from a generator of its own, so that it does not notice the others."""

    def __init__(self, generators: Sequence[torch.Generator], state: State) -> None:
        self._generators, self._state = generators, state

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Drawing, event_shape: tuple[int, ...]) -> Tensor:
        own = self._state.basis.variance
        rows = [
            draw(event_shape, generator=one, dtype=own.dtype, device=own.device)
            for one in self._generators
        ]
        return torch.stack(rows).view((*self._state.time.shape, *event_shape))


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


def draws_from(generator: Generators | Draws | None, state: State) -> Draws:
    """Random numbers for the trials of a state.

    Args:
        generator: One for all trials, one per trial, anything that draws by itself, or None for
            PyTorch's default generator.
        state: Whose trials they are for.

    Raises:
        InputDataError: If there is not one generator per trial, or it is none at all.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return _Shared(generator, state)
    if isinstance(generator, Draws):
        return generator
    trials = state.time.numel()
    generators = list(generator) if isinstance(generator, Sequence) else [generator]
    if not all(isinstance(one, torch.Generator) for one in generators):
        raise InputDataError(
            f"generator is {generator!r}; pass a torch.Generator, or a list with one per trial."
        )
    if len(generators) != trials:
        raise InputDataError(
            f"generator holds {len(generators)} generators, but the state has {trials} trials; "
            "pass one for all, or one per trial."
        )
    return _OnePerTrial(generators, state)
