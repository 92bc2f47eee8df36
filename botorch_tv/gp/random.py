"""Counter-based random numbers: number i of a key is a hash of key and i, equal on all devices.

The generator is SplittableRandom of Steele, Lea and Flood, "Fast splittable pseudorandom number
generators" (OOPSLA 2014): word i of a pair (start, step) is ``mix(start + (i + 1) * step)``, where
``mix`` is the finaliser of SplitMix64 (Stafford's variant 13). SplitMix64 passes the test battery
BigCrush of TestU01. Each pair (start, step) has its own step, so no two sequences of words overlap.
Words are int64 with intended overflow; a batch of keys takes the same number of tensor operations
as one key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import torch
from botorch.exceptions import InputDataError
from torch import Tensor


def signed(word: int) -> int:
    """An unsigned 64-bit word as the int64 with the same bits."""
    return word - 2**64 if word >= 2**63 else word


GOLDEN = signed(0x9E3779B97F4A7C15)
"""The default step of SplitMix64: the odd integer nearest to 2^64 divided by the golden ratio."""
_STAFFORD_13 = ((30, signed(0xBF58476D1CE4E5B9)), (27, signed(0x94D049BB133111EB)), (31, 1))
_MURMUR_3 = ((33, signed(0xFF51AFD7ED558CCD)), (33, signed(0xC4CEB9FE1A85EC53)), (33, 1))
_ALTERNATING = signed(0xAAAAAAAAAAAAAAAA)
_FEWEST_CHANGES = 24


def mixed(word: Tensor) -> Tensor:
    """The finaliser of SplitMix64, int64: maps similar words to dissimilar words."""
    return _finalised(word.clone(), _STAFFORD_13)


def trial_keys(first: int, second: int, trials: Tensor) -> tuple[Tensor, Tensor]:
    """For each trial, the start and the step of its sequence of random words.

    Args:
        first: First 64 bits of the trials' common key, as a signed integer.
        second: Last 64 bits of the trials' common key, as a signed integer.
        trials: Indices of the trials, int64.

    Returns:
        Two tensors of the shape of ``trials``: the start of each trial's sequence of words, which
        differs between all trials; and the step of each trial's sequence, an odd number.
    """
    count = (trials + 1) * GOLDEN
    step = _finalised(count + second, _MURMUR_3) | 1
    # Replace steps whose neighbouring bits seldom differ, because they mix slowly (``mixGamma``).
    monotonous = _set_bits(step ^ shifted(step, 1)) < _FEWEST_CHANGES
    return mixed(count + first), torch.where(monotonous, step ^ _ALTERNATING, step)


def words(start: Tensor, step: Tensor, numbers: Tensor) -> Tensor:
    """Random 64-bit words, int64, from sequences given by their starts and steps.

    Args:
        start: Starts from :func:`trial_keys`.
        step: Steps from :func:`trial_keys`, of the shape of ``start``.
        numbers: Indices of the words, counted from 0, int64, broadcastable with ``start`` and
            ``step``.
    """
    return _finalised(((numbers + 1) * step).add_(start), _STAFFORD_13)


def uniforms(word: Tensor) -> Tensor:
    """Convert words to float64 numbers uniform on [0, 1), which are multiples of 2^-53."""
    return shifted(word, 11).double().mul_(2.0**-53)


def normals(radius: Tensor, angle: Tensor) -> Tensor:
    """Convert two words to two standard normal variates (Box and Muller, 1958).

    Args:
        radius: Words for the radius, any shape.
        angle: Words for the angle, of the shape of ``radius``.

    Returns:
        The variates, float64, `... x 2`. All variates lie between -8.6 and 8.6; an exact normal
        variate lies outside this interval with probability 10^-17.
    """
    # A uniform number in (0, 1]: the smallest value is 2^-53, and 1 + 2^-53 rounds to 1.
    length = radius.double().mul_(2.0**-64).add_(0.5 + 2.0**-53)
    length.log_().mul_(-2).sqrt_()
    turn = angle.double().mul_(2 * math.pi * 2.0**-64)
    pair = length.new_empty((*length.shape, 2))
    torch.mul(length, turn.cos(), out=pair[..., 0])
    torch.mul(length, turn.sin_(), out=pair[..., 1])
    return pair


def _finalised(word: Tensor, rounds: tuple[tuple[int, int], ...]) -> Tensor:
    """Apply xor-shifts and multiplications to a word in turn, in place."""
    buffer = torch.empty_like(word)
    for by, factor in rounds:
        word ^= shifted(word, by, out=buffer)
        if factor != 1:
            word *= factor
    return word


def shifted(word: Tensor, by: int, out: Tensor | None = None) -> Tensor:
    """A right shift that fills with zeros; PyTorch's shift fills with the sign bit."""
    shifted = torch.bitwise_right_shift(word, by, out=out)
    return shifted.bitwise_and_(2 ** (64 - by) - 1)


def _set_bits(word: Tensor) -> Tensor:
    """Number of set bits of each word."""
    for by, mask in enumerate((0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F)):
        word = (word & mask) + (shifted(word, 2**by) & mask)
    return shifted(word * 0x0101010101010101, 56)


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
    """A source of random numbers that can skip variates without drawing them."""

    def leading_normals(self, count: int, room: int) -> Tensor:
        """Consume ``room`` standard normal variates, and return the first ``count``.

        The returned variates are `batch_shape x count`.

        Args:
            count: Number of variates returned.
            room: Number of variates consumed, at least ``count``.
        """


def leading_normals(draws: Draws, count: int, room: int) -> Tensor:
    """Consume a fixed number of standard normal variates, and return only the first variates.

    The number of required variates may differ by 1 between processors. A fixed number of variates
    is consumed, so all later draws are equal on all processors.

    Args:
        draws: The source.
        count: Number of variates returned.
        room: Number of variates consumed, at least ``count``.

    Returns:
        The variates, `batch_shape x count`.
    """
    if isinstance(draws, NumberedDraws):
        return draws.leading_normals(count, room)
    return draws.normal(room)[..., :count]


class _Drawn:
    """Random numbers from one generator for all trials, or from one generator per trial.

    Args:
        generators: One generator for all trials, or one per trial.
        shape: Batch shape of the trials.
        like: A tensor that defines the dtype and device of the random numbers.
    """

    def __init__(
        self, generators: Sequence[torch.Generator | None], shape: Sequence[int], like: Tensor
    ) -> None:
        self._generators, self._shape, self._like = generators, shape, like

    def normal(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.randn, event_shape)

    def uniform(self, *event_shape: int) -> Tensor:
        return self._drawn(torch.rand, event_shape)

    def _drawn(self, draw: Callable[..., Tensor], event_shape: tuple[int, ...]) -> Tensor:
        """Numbers drawn on the device of the generators and copied to the device of the trials."""
        whole, like = (*self._shape, *event_shape), self._like
        shape, rows = whole if len(self._generators) == 1 else event_shape, []
        for generator in self._generators:
            place = like.device if generator is None else generator.device
            rows.append(draw(shape, generator=generator, dtype=like.dtype, device=place))
        return torch.stack(rows).view(whole).to(like.device)


def draws_for(
    generator: Generators | Draws | None, batch_shape: Sequence[int], like: Tensor
) -> Draws:
    """Random numbers for a batch of trials.

    Args:
        generator: A generator for all trials, a list with a generator per trial, a :class:`Draws`,
            or None for PyTorch's default generator. A generator on another device draws on that
            device, and the numbers are then copied.
        batch_shape: Shape of the trials.
        like: A tensor that defines the dtype and device of the returned random numbers. If
            ``generator`` is a :class:`Draws`, the argument ``like`` is ignored.

    Raises:
        InputDataError: If ``generator`` is of another type, or if it is a list whose length is not
            the number of trials.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return _Drawn([generator], batch_shape, like)
    if isinstance(generator, Draws):
        return generator
    trials = math.prod(batch_shape)
    listed = isinstance(generator, Sequence) and len(generator) == trials
    if not listed or not all(isinstance(item, torch.Generator) for item in generator):
        raise InputDataError(
            f"generator is {generator!r}, but there are {trials} trials; pass a torch.Generator, "
            "or a list with one generator per trial."
        )
    return _Drawn(generator, batch_shape, like)
