"""What the parts of a strategy see of the rounds, and their memory."""

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
        X: The point, `batch_shape x d`, followed by the context if there is one.
        y: The observed value, `batch_shape`; 0 where a measurement failed.
        mean: The predicted mean, `batch_shape`.
        sd: The predicted standard deviation, without observation noise, `batch_shape`.
        noise: Noise variance, `batch_shape`; infinite where a measurement failed.
    """

    X: Tensor
    y: Tensor
    mean: Tensor
    sd: Tensor
    noise: Tensor


class LogRows(Protocol):
    """The n remaining observations, oldest first."""

    @property
    def time(self) -> Tensor:
        """When they were made, `batch_shape x n`, float64."""

    @property
    def y(self) -> Tensor:
        """The observed values, `batch_shape x n`; 0 where a measurement failed or was dropped."""

    @property
    def noise(self) -> Tensor:
        """Noise variances, `batch_shape x n`; infinite where one failed or was dropped."""

    @property
    def X(self) -> Tensor:
        """Where they were made, `batch_shape x n x d`."""

    @property
    def kept(self) -> Tensor:
        """Which rows a trial still keeps, `batch_shape x n`, bool; other trials keep the rest."""


class Log:
    """The remaining observations, as a part of a strategy sees them.

    Trials share the rows. A row that one trial has dropped while another still keeps it looks like
    a failed one, so rules that compare observations should skip those of infinite ``noise``.

    ``time``, ``y``, ``noise``, ``X`` and ``kept`` are those of :class:`LogRows`.

    Attributes:
        now: The present, `batch_shape`, float64; after an observation, its time.
        rounds: Rounds so far, the same for all trials; n of them remain.
        since: Rounds t' since the last reset of any rule, including the current one,
            `batch_shape`, int64.
        first_time: Time of the very first observation, `batch_shape`, float64.
        newest: The observation just made, which is the last row; None before a choice.
        reset: Which trials were reset in this round, `batch_shape`, bool, for :meth:`Part.update`;
            None before that is decided.
        memory: The part's memory; see :meth:`Part.init`.
    """

    __slots__ = ("_rows", "first_time", "memory", "newest", "now", "reset", "rounds", "since")

    def __init__(
        self,
        rows: LogRows,
        *,
        now: Tensor,
        rounds: int,
        since: Tensor,
        first_time: Tensor,
        newest: Observation | None = None,
        reset: Tensor | None = None,
        memory: Any = None,
    ) -> None:
        self._rows, self.now, self.rounds, self.since = rows, now, rounds, since
        self.first_time, self.newest, self.reset = first_time, newest, reset
        self.memory = memory

    @property
    def time(self) -> Tensor:
        """See :attr:`LogRows.time`."""
        return self._rows.time

    @property
    def y(self) -> Tensor:
        """See :attr:`LogRows.y`."""
        return self._rows.y

    @property
    def noise(self) -> Tensor:
        """See :attr:`LogRows.noise`."""
        return self._rows.noise

    @property
    def X(self) -> Tensor:
        """See :attr:`LogRows.X`."""
        return self._rows.X

    @property
    def kept(self) -> Tensor:
        """See :attr:`LogRows.kept`."""
        return self._rows.kept

    def before_a_choice(self) -> Log:
        """The same log without the newest observation, as before a choice."""
        return Log(
            self._rows,
            now=self.now,
            rounds=self.rounds,
            since=self.since,
            first_time=self.first_time,
            memory=self.memory,
        )


class Part:
    """A part of a strategy that may have memory: tensors that lead with `batch_shape`.

    The memory is a value, carried in the state and saved with it; the part itself never changes.
    """

    def init(self, batch_shape: Size) -> Any:
        """The memory before the first round: a tensor, or tuples or dicts of tensors.

        Tensors are moved to the device of the state, floating-point ones also to its dtype.
        """
        return None

    def update(self, log: Log) -> Any:
        """The memory after a round, given ``log.memory`` and the observation ``log.newest``.

        Override it together with :meth:`init`.
        """
        return log.memory


def own_copy(part: Copied) -> Copied:
    """A copy of a part, independent of later changes to the original.

    Raises:
        ValueError: If it cannot be copied.
    """
    try:
        return copy.deepcopy(part)
    except Exception as error:
        raise ValueError(
            f"{shown(part)} cannot be copied ({error}), but a part is configuration, which does "
            "not change; hold numbers, tensors and functions, and remember by init() and update()."
        ) from error


def as_memory(part: Part, memory: Any, before: Any, like: Tensor, shape: Size) -> Any:
    """A part's memory as carried by the state, on its device and in its dtype.

    Args:
        part: The part.
        memory: What its ``init`` or ``update`` returned.
        before: Its previous memory.
        like: Gives the device, and the dtype of floating-point tensors.
        shape: The `batch_shape`.

    Raises:
        InputDataError: If the memory cannot be saved, or is not per trial.
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
