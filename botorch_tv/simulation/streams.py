"""Random numbers that belong to a trial, whatever the batch it runs in and wherever."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_tv.inference.random import normals, signed, trial_keys, uniforms, words

DRAWS = "SplittableRandom by seed, purpose and trial"
"""What results say of their draws, which changes with them."""
AHEAD = 2**15
"""Numbers of all trials drawn at once on a CPU where fewer are asked for, since every operation
takes a microsecond to start: about as many as stay in the cache of a core."""
AHEAD_ELSEWHERE = 2**20
"""The same on other devices: enough to keep a GPU busy."""


class Stream:
    """Random variates for a range of trials, each from a sequence of the trial's own.

    Number i of a sequence is computed from the seed, the purpose, the trial and i, so a study split
    into other chunks, cut short or extended sees the same ones, and so do runs on a CPU and on a
    GPU up to rounding. They are drawn in float64 whatever the run's dtype, so that float32 and
    float64 runs are paired. Normal and uniform variates come from sequences apart.

    Args:
        seed: Seed of the study, at least 0.
        purpose: What the numbers are for; different purposes are independent.
        first: Number of the first trial.
        trials: Number of trials.
        dtype: Of the numbers returned.
        device: Where they are drawn.
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
    ) -> None:
        self.first = first
        self.trials = trials
        self.dtype = dtype
        self.device = device
        self._normal = _Sequence(seed, f"normal {purpose}", self, _normals)
        self._uniform = _Sequence(seed, f"uniform {purpose}", self, _uniforms)
        self._below_one = 1 - torch.finfo(dtype).eps / 2

    def normal(self, *event_shape: int) -> Tensor:
        """The next standard normal variates, `trials x event_shape`."""
        return self._normal.following(event_shape).to(self.dtype)

    def uniform(self, *event_shape: int) -> Tensor:
        """The next variates uniform on [0, 1), `trials x event_shape`."""
        # A float64 just below 1 is 1 in float32.
        return self._uniform.following(event_shape).to(self.dtype).clamp_max_(self._below_one)


class _Sequence:
    """The variates of one kind, drawn ahead.

    Args:
        seed: Seed of the study.
        purpose: What the numbers are for, and of which kind they are.
        stream: Whose trials.
        draw: From starts and steps of the trials, `trials x 1`, and the numbers from one to
            another, to variates, `trials x numbers`.
    """

    def __init__(
        self,
        seed: int,
        purpose: str,
        stream: Stream,
        draw: Callable[[Tensor, Tensor, int, int], Tensor],
    ) -> None:
        # The seed ends where the purpose begins, whatever either is.
        digest = hashlib.sha256(f"{seed} {purpose}".encode()).digest()
        self._first, self._second = (
            signed(int.from_bytes(digest[place : place + 8], "little")) for place in (0, 8)
        )
        self._stream, self._draw = stream, draw
        self._keys: tuple[Tensor, Tensor] | None = None
        ahead = AHEAD if stream.device.type == "cpu" else AHEAD_ELSEWHERE
        self._most = ahead // stream.trials
        self._next = 0  # number of the next variate
        self._ahead = torch.empty(stream.trials, 0)
        self._until = 0  # number after the last one drawn ahead

    def following(self, event_shape: tuple[int, ...]) -> Tensor:
        """The next variates, `trials x event_shape`, float64, in memory that is the caller's."""
        wanted = math.prod(event_shape)
        if self._next + wanted > self._until:
            self._refill(wanted)
        place = self._next - (self._until - self._ahead.shape[1])
        self._next += wanted
        return self._ahead[:, place : place + wanted].reshape(self._stream.trials, *event_shape)

    def _refill(self, wanted: int) -> None:
        if self._keys is None:
            first, trials = self._stream.first, self._stream.trials
            numbers = torch.arange(first, first + trials, device=self._stream.device)
            start, step = trial_keys(self._first, self._second, numbers.unsqueeze(-1))
            self._keys = start, step
        # Twice as many every time, for some purposes need one number and others one per round.
        calls = max(1, min(2 * self._ahead.shape[1], self._most) // max(wanted, 1))
        begin = self._next - self._next % 2  # normal variates come in pairs
        self._until = self._next + calls * wanted
        self._until += self._until % 2
        self._ahead = self._draw(*self._keys, begin, self._until)


def _normals(start: Tensor, step: Tensor, begin: int, end: int) -> Tensor:
    """Variates 2j and 2j + 1 are made of words 2j and 2j + 1."""
    numbers = torch.arange(begin, end, device=start.device).view(-1, 2).T.contiguous()
    word = words(start.unsqueeze(-1), step.unsqueeze(-1), numbers)
    return normals(word[:, 0], word[:, 1]).flatten(1)


def _uniforms(start: Tensor, step: Tensor, begin: int, end: int) -> Tensor:
    return uniforms(words(start, step, torch.arange(begin, end, device=start.device)))
