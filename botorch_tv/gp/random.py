"""Random numbers by count: number i of a key is a hash, the same integers on every device.

The generator is SplittableRandom of Steele, Lea and Flood, "Fast splittable pseudorandom number
generators" (OOPSLA 2014): word i of a pair (start, step) is ``mix(start + (i + 1) * step)`` with
the finaliser of SplitMix64 (Stafford's variant 13), which passes BigCrush of TestU01; each pair has
a step of its own, so that no two sequences are parts of one. Words are int64 whose overflow wraps
on purpose, so a batch of keys takes a fixed number of operations, whatever its size.
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
"""The odd integer nearest to 2^64 over the golden ratio, the usual step."""
_STAFFORD_13 = ((30, signed(0xBF58476D1CE4E5B9)), (27, signed(0x94D049BB133111EB)), (31, 1))
_MURMUR_3 = ((33, signed(0xFF51AFD7ED558CCD)), (33, signed(0xC4CEB9FE1A85EC53)), (33, 1))
_ALTERNATING = signed(0xAAAAAAAAAAAAAAAA)
_FEWEST_CHANGES = 24


def mixed(word: Tensor) -> Tensor:
    """Bits mixed so that near words go far apart, int64: the finaliser of SplitMix64."""
    return _finalised(word.clone(), _STAFFORD_13)


def trial_keys(first: int, second: int, trials: Tensor) -> tuple[Tensor, Tensor]:
    """A start and a step for each of some trials.

    Args:
        first: 64 bits of the key that the trials share, signed.
        second: 64 other bits of it.
        trials: Numbers of the trials, int64.

    Returns:
        Starts, different for all trials, and odd steps, of the shape of ``trials``.
    """
    count = (trials + 1) * GOLDEN
    step = _finalised(count + second, _MURMUR_3) | 1
    # A step of few changes between neighbouring bits would mix slowly (mixGamma of the paper).
    monotonous = _set_bits(step ^ shifted(step, 1)) < _FEWEST_CHANGES
    return mixed(count + first), torch.where(monotonous, step ^ _ALTERNATING, step)


def words(start: Tensor, step: Tensor, numbers: Tensor) -> Tensor:
    """The words of some keys with these numbers, int64.

    Args:
        start: From :func:`trial_keys`.
        step: With it, of the same shape.
        numbers: Counted from 0, int64, of a shape that broadcasts with both.
    """
    return _finalised(((numbers + 1) * step).add_(start), _STAFFORD_13)


def uniforms(word: Tensor) -> Tensor:
    """Words as float64 uniform on [0, 1), in steps of 2^-53."""
    return shifted(word, 11).double().mul_(2.0**-53)


def normals(radius: Tensor, angle: Tensor) -> Tensor:
    """Two words as two standard normal variates (Box and Muller 1958).

    Args:
        radius: A word each.
        angle: Another word each, of the same shape.

    Returns:
        float64, `... x 2`; none is further than 8.6 from 0, beyond which lie 1 in 10^17.
    """
    # In (0, 1]: the least is 2^-53, and what was rounded up to 1 + 2^-53 is 1.
    length = radius.double().mul_(2.0**-64).add_(0.5 + 2.0**-53)
    length.log_().mul_(-2).sqrt_()
    turn = angle.double().mul_(2 * math.pi * 2.0**-64)
    pair = length.new_empty((*length.shape, 2))
    torch.mul(length, turn.cos(), out=pair[..., 0])
    torch.mul(length, turn.sin_(), out=pair[..., 1])
    return pair


def _finalised(word: Tensor, rounds: tuple[tuple[int, int], ...]) -> Tensor:
    """A word that is xor-shifted and multiplied in turn, in its own memory."""
    buffer = torch.empty_like(word)
    for by, factor in rounds:
        word ^= shifted(word, by, out=buffer)
        if factor != 1:
            word *= factor
    return word


def shifted(word: Tensor, by: int, out: Tensor | None = None) -> Tensor:
    """A right shift that fills with zeros; PyTorch's fills with the sign."""
    shifted = torch.bitwise_right_shift(word, by, out=out)
    return shifted.bitwise_and_(2 ** (64 - by) - 1)


def _set_bits(word: Tensor) -> Tensor:
    """How many bits are set."""
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


class _Drawn:
    """Numbers of one generator for all trials, or of one for each, which notices no others.

    Args:
        generators: One for all trials, or one for each.
        shape: Batch shape of the trials.
        like: Of the dtype and device of the numbers.
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
        """Numbers drawn where generators are, and brought to where the trials are."""
        whole, like = (*self._shape, *event_shape), self._like
        shape, rows = whole if len(self._generators) == 1 else event_shape, []
        for generator in self._generators:
            place = like.device if generator is None else generator.device
            rows.append(draw(shape, generator=generator, dtype=like.dtype, device=place))
        return torch.stack(rows).view(whole).to(like.device)


def draws_for(
    generator: Generators | Draws | None, batch_shape: Sequence[int], like: Tensor
) -> Draws:
    """Random numbers for trials of a shape.

    Args:
        generator: One for all trials, one per trial, anything that draws by itself, or None for
            PyTorch's default generator. A generator on another device than the trials draws there,
            and what it draws is copied, for which a GPU waits.
        batch_shape: Shape of the trials.
        like: Gives dtype and device of the numbers, unless the generator draws by itself.

    Raises:
        InputDataError: If there is not one generator per trial, or it is none at all.
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
            "or a list with one per trial."
        )
    return _Drawn(generator, batch_shape, like)
