"""The log of observations, and the only place where it is decided which rows are retained."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.forgetting.base import Kept
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.box import BoxPrior
from botorch_tv.inference.mixture.bank import BankPrior
from botorch_tv.inference.tensors import Rows, append_together
from botorch_tv.validation import shown

if TYPE_CHECKING:
    from botorch_tv.inference.arm_engine import RunningPosterior
    from botorch_tv.inference.cholesky import GrowingFactor
    from botorch_tv.inference.mixture.filter import RunningMixture

Prior = Basis | BoxPrior | BankPrior
"""A kernel factored over arms, one held for points of a box, or a bank of processes."""


def checked(answer: Kept | Tensor, time: Tensor, rows: int) -> Kept:
    """An answer of a rule as such.

    Args:
        answer: What its ``keep`` returned.
        time: Of the newest observation, `batch_shape`.
        rows: How many it was asked about, n.

    Raises:
        InputDataError: If it does not fit these, or contradicts itself.
    """
    kept = Kept(rows=answer) if isinstance(answer, Tensor) else answer
    if not isinstance(kept, Kept):
        raise InputDataError(
            f"a retention answered {shown(answer)}, but keep() returns a Kept, such as "
            "Kept(newest=20), or a bool tensor of shape batch_shape x n."
        )
    masks = (kept.rows, kept.where, kept.aside)
    if isinstance(kept.reset, bool) and all(one is None for one in masks):
        return _counted(kept)
    shape = time.shape
    wanted = {
        "rows": (kept.rows, (*shape, rows)),
        "where": (kept.where, tuple(shape)),
        "aside": (kept.aside, (*shape, rows)),
        "reset": (None if isinstance(kept.reset, bool) else kept.reset, tuple(shape)),
    }
    for name, (tensor, needed) in wanted.items():
        if tensor is not None:
            _require_mask(name, tensor, needed, time.device)
    if kept.rows is not None and (kept.newest is not None or kept.where is not None):
        raise InputDataError(
            "a retention answered with rows= and newest= or where= besides; answer one or the "
            "other, or make two rules of it, since what all keep stays."
        )
    if kept.where is not None and kept.newest is None:
        raise InputDataError(
            "a retention answered with where=, but not how many rows stay there; add newest=0 to "
            "forget all of them, newest=1 to keep the one just made."
        )
    return _counted(kept)


def _require_mask(name: str, value: object, shape: tuple[int, ...], device: torch.device) -> None:
    """Raise unless it is a bool tensor of this shape on this device."""
    if not isinstance(value, Tensor):
        given = shown(value)
    elif value.dtype == torch.bool and value.shape == shape and value.device == device:
        return
    else:
        given = f"{value.dtype} of shape {tuple(value.shape)} on {value.device}"
    raise InputDataError(
        f"a retention answered with {name} {given}, but it must be a bool tensor of shape "
        f"{shape} on {device}; compare log.time, which is batch_shape x n, with "
        "log.now.unsqueeze(-1)."
    )


def _counted(kept: Kept) -> Kept:
    whole = isinstance(kept.newest, int) and not isinstance(kept.newest, bool)
    if kept.newest is not None and not (whole and kept.newest >= 0):
        raise InputDataError(
            f"a retention keeps the newest {shown(kept.newest)} rows, but it must be a whole "
            "number from 0 on; answer rows=, a bool per row, where it differs by trial."
        )
    return kept


class Present(NamedTuple):
    """When a round is decided."""

    now: Tensor
    """The present, `batch_shape`."""
    reference: Tensor
    """Time from which lags are counted: now, or that of the newest observation, `batch_shape`."""


class History(NamedTuple):
    """The log of choices, n rounds long."""

    choice: Rows
    """What was chosen: arms, `batch_shape x n`, int64; on a box points, `batch_shape x n x d`, the
    context included."""
    y: Rows
    """Observations, `batch_shape x n`; 0 where one failed."""
    noise: Rows
    """Their noise variances, `batch_shape x n`; infinite where one failed."""
    time: Rows
    """Times of the observations, `batch_shape x n`, float64."""


class Data(NamedTuple):
    """All that a posterior is computed from, besides the process: the log, and what is kept."""

    prior: Prior
    """The kernel factored over the arms of a grid, or what is held of it on a box."""
    rounds: int
    """Observations told, the same for all trials."""
    dropped: int
    """Oldest observations that no trial keeps."""
    retained: Tensor | None
    """Which of the others each trial retains, `batch_shape x (rounds - dropped)`, bool; None where
    all retain all."""
    aside: Tensor | None
    """Which of these are set aside for now, of the same shape; None for none."""
    time: Tensor
    """Time of the newest observation, 0 before the first, `batch_shape`, float64."""
    first_time: Tensor
    """Time of the first observation ever, `batch_shape`, float64."""
    origin: Tensor
    """Time of the first observation since the last reset, infinite before it, `batch_shape`."""
    since: Tensor
    """Rounds t' since the last reset, the round being decided included, `batch_shape`, int64."""
    least_noise: float
    """No observation told has a smaller noise variance; 0 where nobody has looked."""
    empty: Tensor | None
    """Trials that keep no good observation, `batch_shape`, bool; None where all keep one."""
    history: History
    running: RunningPosterior | RunningMixture | GrowingFactor | None = None
    """The posterior over the arms, or what regressions on a box have in common; None where all is
    computed from the log at every round."""

    @classmethod
    def none(cls, prior: Prior, choices: Rows, noise: float, shape: Size) -> Data:
        """The data before any observation.

        Args:
            prior: What the kernel says about functions on the domain.
            choices: An empty log of choices.
            noise: Noise variance of an observation, unless it is told with another.
            shape: The `batch_shape`.
        """
        dtype, device = prior.variance.dtype, prior.variance.device
        time = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(
            prior=prior,
            rounds=0,
            dropped=0,
            retained=None,
            aside=None,
            time=time,
            first_time=time,
            origin=time + math.inf,
            since=torch.ones(shape, dtype=torch.int64, device=device),
            least_noise=noise,
            empty=torch.ones(shape, dtype=torch.bool, device=device),
            history=History(
                choice=choices,
                y=Rows.empty(shape, dtype=dtype, device=device),
                noise=Rows.empty(shape, dtype=dtype, device=device),
                time=Rows.empty(shape, dtype=torch.float64, device=device),
            ),
        )

    @property
    def mask(self) -> Tensor | None:
        """Which rows from ``dropped`` on are in use, `batch_shape x n`, bool; None for all."""
        if self.aside is None:
            return self.retained
        return ~self.aside if self.retained is None else self.retained & ~self.aside

    @property
    def keeps_all(self) -> bool:
        """Whether no trial leaves out any row from ``dropped`` on, as far as is known."""
        return self.retained is None and self.aside is None

    @property
    def kept(self) -> Tensor:
        """The mask of the rows kept, also if all are kept."""
        mask = self.mask
        if mask is not None:
            return mask
        shape = (*self.time.shape, self.rounds - self.dropped)
        return torch.ones((), dtype=torch.bool, device=self.time.device).expand(shape)

    @property
    def good(self) -> Tensor:
        """Which rows from ``dropped`` on a trial keeps and can learn from, `batch_shape x n`."""
        return self.kept & self.history.noise.tensor(self.dropped).isfinite()

    def observed(
        self,
        choice: Tensor,
        y: Tensor,
        noise: Tensor,
        time: Tensor,
        least_noise: float,
        *,
        all_good: bool,
    ) -> Data:
        """The data with one observation more, which is kept.

        Args:
            choice: Arms, `batch_shape`, or points, `batch_shape x (d + c)`.
            y: `batch_shape`; 0 where the measurement failed.
            noise: Variances, infinite where it failed, `batch_shape`.
            time: `batch_shape`.
            least_noise: A lower bound of the variances.
            all_good: Whether no measurement failed, as far as that is known without looking.
        """
        log, retained, aside = self.history, self.retained, self.aside
        if retained is not None:
            retained = torch.nn.functional.pad(retained, (0, 1), value=1)
        if aside is not None:
            aside = torch.nn.functional.pad(aside, (0, 1))
        origin, empty = self.origin, self.empty
        if empty is not None:  # or the first is known
            started = time if all_good else torch.where(noise.isfinite(), time, math.inf)
            origin = torch.minimum(origin, started)
            empty = None if all_good else empty & noise.isinf()
        return self._replace(
            rounds=self.rounds + 1,
            retained=retained,
            aside=aside,
            time=time,
            first_time=time if self.rounds == 0 else self.first_time,
            origin=origin,
            since=self.since + 1,
            least_noise=min(self.least_noise, least_noise),
            empty=empty,
            history=History(
                log.choice.append(choice),
                *append_together((log.y, log.noise, log.time), (y, noise, time)),
            ),
        )

    def keep(
        self, answers: Iterable[Kept | Tensor], *, all_good: bool | None = None
    ) -> tuple[Data, Change]:
        """The data that are left by the answers of rules: rows that all retain, and resets.

        A device is not waited for, so that on a CPU alone it shows that nothing has changed where a
        rule answers for every trial. What is left is the same.

        Args:
            answers: Of each rule; those of users have to be :func:`checked`.
            all_good: Right after an observation: whether it is known to have failed in no trial.

        Returns:
            The data, whose posterior is still that of all rows, and what has changed.
        """
        looks, length = _looks(self), self.rounds - self.dropped
        newest, retained = length, self.retained
        aside: Tensor | None = None
        reset: Tensor | None = None
        cleared: Tensor | None = None
        any_rows = restarts = False
        fresh = bool(all_good)  # whether the newest row is good in all trials, and retained
        for answer in answers:
            one = Kept(rows=answer) if isinstance(answer, Tensor) else answer
            fresh = fresh and one.rows is None and one.newest != 0
            if one.aside is not None and not (looks and not bool(one.aside.any())):
                aside = one.aside if aside is None else aside | one.aside
            if one.newest is not None and one.where is None:
                newest = min(newest, one.newest)
            resets: Tensor | None = None
            if isinstance(one.reset, Tensor):
                if not looks or bool(one.reset.any()):
                    resets = one.reset
            elif one.reset:
                resets = torch.ones_like(self.time, dtype=torch.bool)
            before, retained = retained, self._narrowed(retained, one, looks)
            clears = False
            if retained is not before:
                where = one.where
                if one.newest == 1 and where is not None and resets is not None:
                    clears = resets is where or (looks and torch.equal(resets, where))
                if clears:
                    cleared = where if cleared is None or where is None else cleared | where
                any_rows = any_rows or not clears
            if resets is not None:
                reset = resets if reset is None else reset | resets
                restarts = restarts or not clears
        data, change = self, Change()
        if newest < length or retained is not self.retained or reset is not None:
            leaving = range(self.dropped, self.rounds - newest)
            if looks and retained is not None:
                newest = min(newest, _newest_in_use(retained))
            if retained is not None:
                retained = retained[..., length - newest :]
            data = self._replace(dropped=self.rounds - newest, retained=retained, aside=None)
            if not fresh:
                data = data._replace(empty=~data.good.any(-1))
            if reset is not None:
                alone = cleared is reset and not any_rows  # the newest row, in those trials
                if not (alone and all_good is not None) and self.retained is not None:
                    reset = reset & self.retained.any(-1)  # an empty log is not asked about
                started = data._started(all_good if alone else None)
                data = data._replace(
                    origin=torch.where(reset, started, self.origin),
                    since=self.since.masked_fill(reset, 1),
                )
            change = Change(leaving, cleared, any_rows, restarts, reset)
        if aside is None and self.aside is None:
            return data, change
        same = looks and aside is not None and self.aside is not None
        same = same and torch.equal(aside, self.aside)  # type: ignore[arg-type]
        if same and data is self:
            return self, change
        if aside is not None:
            aside = aside[..., data.dropped - self.dropped :]
        data = data._replace(aside=aside)
        change = change._replace(any_rows=change.any_rows or not same)
        return data._replace(empty=~data.good.any(-1)), change

    def _narrowed(self, retained: Tensor | None, answer: Kept, looks: bool) -> Tensor | None:
        """The rows that are left of some by an answer for single trials or rows.

        If ``looks``, they are the same object where nothing has changed.
        """
        rows, where, length = answer.rows, answer.where, self.rounds - self.dropped
        if rows is None:
            if where is None or answer.newest is None or answer.newest >= length:
                return retained
            if looks and not bool(where.any()):
                return retained
            older = (~where).unsqueeze(-1).expand(*where.shape, length - answer.newest)
            rows = torch.nn.functional.pad(older, (0, answer.newest), value=1)
        left = rows if retained is None else rows & retained
        if looks and bool(left.all() if retained is None else left.eq(retained).all()):
            return retained
        return left

    def _started(self, newest_good: bool | None) -> Tensor:
        """Time of the first good row retained, infinite where there is none, `batch_shape`.

        Args:
            newest_good: If the newest row alone is retained: whether it is known to be good.
        """
        if newest_good:
            return self.time
        first = self.dropped if newest_good is None else self.rounds - 1
        good = self.history.noise.tensor(first) < math.inf
        if newest_good is None:
            good = good & self.kept
        starts = torch.where(good, self.history.time.tensor(first), math.inf)
        return torch.nn.functional.pad(starts, (0, 1), value=math.inf).amin(-1)

    @property
    def elapsed(self) -> Tensor:
        """Times of rows from ``dropped`` on, counted from the origin, `batch_shape x n`.

        Those before it belong to rows not in use, for which any finite number will do.
        """
        time = self.history.time.tensor(self.dropped)
        return (time - self.origin.unsqueeze(-1)).clamp_min(0)


class Change(NamedTuple):
    """How a set of rows has changed."""

    leaving: range = range(0)
    """Numbers of the oldest rows, which all trials leave out that kept them."""
    cleared: Tensor | None = None
    """Trials that were reset and keep the newest row only, `batch_shape`, bool; None for none."""
    any_rows: bool = False
    """Whether any others may have left, the newest of a trial that was reset among them."""
    restarts: bool = False
    """Whether a clock may have begun anew in trials where older rows than the newest are left."""
    reset: Tensor | None = None
    """Trials that were reset, `batch_shape`, bool; None for none."""


def _looks(data: Data) -> bool:
    """Whether looking at a tensor costs no waiting."""
    return data.time.device.type == "cpu"


def _newest_in_use(mask: Tensor) -> int:
    """How many rows there are from the oldest that some trial keeps, of `batch_shape x n`."""
    used = mask.flatten(0, -2).any(0) if mask.dim() > 1 else mask
    if used.numel() == 0:
        return 0
    return int(len(used) - used.to(torch.uint8).argmax()) if bool(used.any()) else 0
