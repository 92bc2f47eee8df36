"""What parts of a strategy see of the rounds, and how they remember."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Protocol, TypeVar

from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.validation import shown

Copied = TypeVar("Copied")


class Observation(NamedTuple):
    """An observation with its prediction; every tensor leads with `batch_shape`.

    Attributes:
        X: Where it was made, `batch_shape x d`; the context, where there is one, comes behind.
        y: What was observed, `batch_shape`; 0 where a measurement failed.
        mean: The mean predicted before, `batch_shape`.
        sd: The standard deviation of that prediction, without observation noise, `batch_shape`.
        noise: Noise variance, `batch_shape`; infinite where a measurement failed.
    """

    X: Tensor
    y: Tensor
    mean: Tensor
    sd: Tensor
    noise: Tensor


class Left(Protocol):
    """The observations that are left, n in number, oldest first."""

    @property
    def time(self) -> Tensor:
        """When they were made, `batch_shape x n`, float64."""

    @property
    def y(self) -> Tensor:
        """What was observed, `batch_shape x n`; 0 where a measurement failed or has left."""

    @property
    def noise(self) -> Tensor:
        """Noise variances, `batch_shape x n`; infinite where a measurement failed or has left."""

    @property
    def X(self) -> Tensor:
        """Where they were made, `batch_shape x n x d`."""

    @property
    def kept(self) -> Tensor:
        """Which of them a trial still keeps, `batch_shape x n`, bool; others keep the rest."""


class Log:
    """The remaining observations, as a part of a strategy sees them.

    Trials share the rows: one that a trial does not keep any more, while another does, looks like
    one that failed. So a rule that compares observations leaves out those of infinite ``noise``.

    ``time``, ``y``, ``noise``, ``X`` and ``kept`` are those of :class:`Left`.

    Attributes:
        now: The present, `batch_shape`, float64; after an observation its time.
        rounds: Rounds told, the same for all trials; n of them are left.
        since: Rounds t' since the last reset of any rule, the one being decided or told included,
            `batch_shape`, int64.
        first_time: Time of the first observation ever, `batch_shape`, float64.
        newest: The observation just made, of which the last row tells; None before a choice.
        reset: Which trials were reset in this round, `batch_shape`, bool, for :meth:`Part.update`;
            None where that is yet to be decided.
        memory: What the part remembers; see :meth:`Part.init`.
    """

    __slots__ = ("_left", "first_time", "memory", "newest", "now", "reset", "rounds", "since")

    def __init__(
        self,
        left: Left,
        *,
        now: Tensor,
        rounds: int,
        since: Tensor,
        first_time: Tensor,
        newest: Observation | None = None,
        reset: Tensor | None = None,
        memory: Any = None,
    ) -> None:
        self._left, self.now, self.rounds, self.since = left, now, rounds, since
        self.first_time, self.newest, self.reset = first_time, newest, reset
        self.memory = memory

    @property
    def time(self) -> Tensor:
        """See :attr:`Left.time`."""
        return self._left.time

    @property
    def y(self) -> Tensor:
        """See :attr:`Left.y`."""
        return self._left.y

    @property
    def noise(self) -> Tensor:
        """See :attr:`Left.noise`."""
        return self._left.noise

    @property
    def X(self) -> Tensor:
        """See :attr:`Left.X`."""
        return self._left.X

    @property
    def kept(self) -> Tensor:
        """See :attr:`Left.kept`."""
        return self._left.kept

    def before_a_choice(self) -> Log:
        """The same without an observation that was just made."""
        return Log(
            self._left,
            now=self.now,
            rounds=self.rounds,
            since=self.since,
            first_time=self.first_time,
            memory=self.memory,
        )


class Part:
    """A part of a strategy that may have memory: tensors that lead with `batch_shape`.

    What it remembers is carried in the state and saved with it, so that it is a value: a part
    itself never changes.
    """

    def init(self, batch_shape: Size) -> Any:
        """What it remembers before the first round: a tensor, or tuples or dicts of tensors.

        Tensors are brought to the device of the state, floating-point ones to its dtype.
        """
        return None

    def update(self, log: Log) -> Any:
        """What it remembers after a round, given ``log.memory``; ``log.newest`` was observed.

        To be overridden together with :meth:`init`.
        """
        return log.memory


def own_copy(part: Copied) -> Copied:
    """A part as it is now, whatever becomes of the one that was given.

    Raises:
        ValueError: If it holds what cannot be copied.
    """
    try:
        return copy.deepcopy(part)
    except Exception as error:
        raise ValueError(
            f"{shown(part)} cannot be copied ({error}), but a part is configuration, which does "
            "not change; hold numbers, tensors and functions, and remember by init() and update()."
        ) from error


def as_memory(part: Part, memory: Any, before: Any, like: Tensor, shape: Size) -> Any:
    """What a part remembers, as the state carries it.

    Args:
        part: Whose memory it is.
        memory: What it returned.
        before: What it remembered so far.
        like: Has the dtype that floating-point tensors get, and the device of all.
        shape: The `batch_shape`.

    Raises:
        InputDataError: If it is nothing that can be carried and saved, or not one per trial.
    """
    name = type(part).__name__
    if memory is None and before is not None:
        raise InputDataError(
            f"{name}.update returned None, but it is what {name} remembers; return log.memory "
            "where nothing changes."
        )
    return _checked(name, memory, like, shape)


def _checked(name: str, memory: Any, like: Tensor, shape: Size) -> Any:
    if isinstance(memory, Tensor):
        if memory.shape[: len(shape)] != shape:
            raise InputDataError(
                f"{name} remembers a tensor of shape {tuple(memory.shape)}, but it leads with the "
                f"batch_shape {tuple(shape)}, so that trials have memories of their own; make it "
                "by torch.zeros(batch_shape) in init(), and sum over rows by dim=-1."
            )
        return memory.to(like.device, like.dtype if memory.is_floating_point() else None)
    if isinstance(memory, dict):
        return {key: _checked(name, one, like, shape) for key, one in memory.items()}
    if isinstance(memory, (tuple, list)):
        inside = [_checked(name, one, like, shape) for one in memory]
        return type(memory)(*inside) if hasattr(memory, "_fields") else type(memory)(inside)
    if memory is None or isinstance(memory, (bool, int, float, str)):
        return memory
    raise InputDataError(
        f"{name} remembers {shown(memory)}, but a memory is a tensor, or tuples, lists or dicts of "
        "tensors, so that it can be saved and moved; use torch.as_tensor()."
    )
