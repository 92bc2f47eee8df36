"""Random numbers that depend on the trial, but not on the batch or device in which it runs."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_tv.gp.random import normals, signed, trial_keys, uniforms, words

DRAWS = "SplittableRandom by seed, purpose and trial; functions by pivoted Cholesky factor"
"""Name of the random number generator in results; the name changes whenever its numbers change."""
AHEAD = 2**15
"""Number of random numbers drawn at once on a CPU, summed over trials: about as many as fit into
the cache of a core. The more numbers are drawn at once, the less overhead there is per number."""
AHEAD_ELSEWHERE = 2**20
"""Number of random numbers drawn at once on other devices, summed over trials: enough to keep a GPU
busy."""


class Stream:
    """Random variates for a range of trials; every trial has its own sequences of numbers.

    Number i of a sequence is computed from the seed, the purpose, the trial and i. Therefore the
    numbers of a trial do not depend on the size of chunks or on the number of trials. Numbers on a
    CPU and on a GPU agree up to rounding. Numbers are always drawn in float64 and then converted to
    ``dtype``, so runs in float32 and float64 have the same numbers up to rounding. Normal and
    uniform variates come from different sequences.

    Args:
        seed: Seed of the study, at least 0.
        purpose: Text that states what the random numbers are for; random numbers for different
            purposes are independent.
        first: Number of the first trial.
        trials: Number of trials.
        dtype: Type of the numbers returned.
        device: Device on which the numbers are drawn.
        spread: Standard deviation of normal variates.
    """

    def __init__(
        self,
        seed: int,
        purpose: str,
        first: int,
        trials: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        spread: float = 1.0,
    ) -> None:
        self.first, self.trials, self.dtype, self.device = first, trials, dtype, device
        draw = functools.partial(_normals, spread=spread)
        self._normal = _Sequence(seed, f"normal {purpose}", self, draw)
        self._uniform = _Sequence(seed, f"uniform {purpose}", self, _uniforms)
        self._below_one = 1 - torch.finfo(dtype).eps / 2

    def normal(self, *event_shape: int) -> Tensor:
        """The next normal variates of mean 0, `trials x event_shape`."""
        return self._normal.following(event_shape).to(self.dtype)

    def leading_normals(self, count: int, room: int) -> Tensor:
        """The next ``count`` normal variates of mean 0, `trials x count`.

        After these variates, ``room - count`` variates are skipped without being computed. ``room``
        is rounded up to an even number, because variates are drawn in pairs.
        """
        return self._normal.leading(count, room).to(self.dtype)

    def leading_normals_ahead(self, count: int, room: int) -> Tensor:
        """The variates of the next few calls of :meth:`leading_normals`, drawn together.

        Returns:
            The variates, `trials x calls x count`, for one or more calls.
        """
        return self._normal.leading_ahead(count, room).to(self.dtype)

    def uniform(self, *event_shape: int) -> Tensor:
        """The next variates uniform on [0, 1), `trials x event_shape`."""
        # A float64 just below 1 rounds to 1 in float32.
        return self._uniform.following(event_shape).to(self.dtype).clamp_max_(self._below_one)

    def seeds(self) -> list[int]:
        """A random integer in [0, 2**53) for each trial, to seed other generators."""
        return [
            int(number) for number in (self._uniform.following((1,)) * 2.0**53).flatten().tolist()
        ]


class _Sequence:
    """The variates of one kind (normal or uniform), drawn before they are needed.

    Args:
        seed: Seed of the study.
        purpose: Text that names the purpose and the kind of the variates.
        stream: The stream; its trials and its device are used.
        draw: A function that computes variates, `trials x indices`. The function takes the start
            and the step of each trial's generator, `trials x 1` each, and the indices of the
            variates, in pairs (2j, 2j + 1).
    """

    def __init__(
        self,
        seed: int,
        purpose: str,
        stream: Stream,
        draw: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> None:
        # A space separates seed and purpose, because different pairs must have different texts.
        digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
        self._first, self._second = (
            signed(int.from_bytes(digest[place : place + 8], "little")) for place in (0, 8)
        )
        self._stream, self._draw = stream, draw
        self._keys: tuple[Tensor, Tensor] | None = None
        ahead = AHEAD if stream.device.type == "cpu" else AHEAD_ELSEWHERE
        self._most = ahead // stream.trials
        self._next = 0  # index of the next variate
        self._ahead = torch.empty(stream.trials, 0, device=stream.device)
        self._until = 0  # index of the last variate drawn ahead, plus 1
        self._blocks = torch.empty(stream.trials, 0, 0, device=stream.device)
        self._begins = range(0)  # index of the first variate of each block

    def following(self, event_shape: tuple[int, ...]) -> Tensor:
        """The next variates, `trials x event_shape`, float64; the caller may overwrite them."""
        wanted = math.prod(event_shape)
        if self._next + wanted > self._until:
            self._refill(wanted)
        place = self._next - (self._until - self._ahead.shape[1])
        self._next += wanted
        return self._ahead[:, place : place + wanted].reshape(self._stream.trials, *event_shape)

    def leading(self, wanted: int, room: int) -> Tensor:
        """The first ``wanted`` of the next ``room`` variates, `trials x wanted`, float64."""
        return self._block(wanted, room)[:, 0]

    def leading_ahead(self, wanted: int, room: int) -> Tensor:
        """The variates of several calls of :meth:`leading`, `trials x calls x wanted`."""
        block = self._block(wanted, room)
        self._next = self._begins.stop
        return block

    def _block(self, wanted: int, room: int) -> Tensor:
        """The variates of this call and later calls of :meth:`leading`, drawn together.

        Only the variates of this call are marked as used.
        """
        begin, paired = self._next + self._next % 2, wanted + wanted % 2
        room = max(room, wanted)
        room += room % 2
        cached = (self._begins.step, self._blocks.shape[-1]) == (room, paired)
        if not cached or begin not in self._begins:
            before = self._blocks.shape[1] if cached else 0
            calls = max(1, min(2 * before, self._most // max(paired, 1)))
            self._begins = range(begin, begin + calls * room, room)
            device = self._stream.device
            numbers = torch.tensor(self._begins, device=device).unsqueeze(-1)
            numbers = (numbers + torch.arange(paired, device=device)).flatten()
            drawn = self._draw(*self._trial_keys(), numbers)
            self._blocks = drawn.view(self._stream.trials, -1, paired)
        self._next = begin + room
        return self._blocks[:, self._begins.index(begin) :, :wanted]

    def _trial_keys(self) -> tuple[Tensor, Tensor]:
        if self._keys is None:
            first, trials = self._stream.first, self._stream.trials
            numbers = torch.arange(first, first + trials, device=self._stream.device)
            self._keys = trial_keys(self._first, self._second, numbers.unsqueeze(-1))
        return self._keys

    def _refill(self, wanted: int) -> None:
        # The number of variates drawn at once starts small and doubles, because some purposes need
        # a single number and others need numbers in every round.
        calls = max(1, min(2 * self._ahead.shape[1], self._most) // max(wanted, 1))
        begin = self._next - self._next % 2  # normal variates are computed in pairs
        self._until = self._next + calls * wanted
        self._until += self._until % 2
        numbers = torch.arange(begin, self._until, device=self._stream.device)
        self._ahead = self._draw(*self._trial_keys(), numbers)


def _normals(start: Tensor, step: Tensor, numbers: Tensor, spread: float) -> Tensor:
    """Normal variates; variates 2j and 2j + 1 are computed from random words 2j and 2j + 1."""
    pairs = numbers.view(-1, 2).T.contiguous()
    word = words(start.unsqueeze(-1), step.unsqueeze(-1), pairs)
    drawn = normals(word[:, 0], word[:, 1]).flatten(1)
    return drawn if spread == 1 else drawn.mul_(spread)


def _uniforms(start: Tensor, step: Tensor, numbers: Tensor) -> Tensor:
    return uniforms(words(start, step, numbers))
