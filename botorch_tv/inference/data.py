"""The log of observations, and the one place where what is kept of it is decided."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.retention import Kept
from botorch_tv.inference.answers import checked
from botorch_tv.inference.rows import Rows, append_together

if TYPE_CHECKING:
    from botorch_tv.inference.arm_engine import RunningPosterior
    from botorch_tv.inference.growing_factor import GrowingFactor
    from botorch_tv.inference.mixture.running import RunningMixture
    from botorch_tv.inference.prior import Prior


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
    oldest: Tensor | None
    """Number of the first row since a trial left out all before, `batch_shape`, int64; None where
    none has."""
    latest: int
    """The oldest row of no trial has a greater number."""
    chosen: Tensor | None
    """Which of the others it keeps, `batch_shape x (rounds - dropped)`, bool; None for all."""
    aside: Tensor | None
    """Which of these it leaves out for now, of the same shape; None for none."""
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
            oldest=None,
            latest=0,
            chosen=None,
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
        """Which rows from ``dropped`` on a trial keeps, `batch_shape x n`, bool; None for all."""
        if self.aside is not None:
            return self._replace(aside=None).kept & ~self.aside
        if self.oldest is None:
            return self.chosen
        numbers = torch.arange(self.dropped, self.rounds, device=self.time.device)
        recent = numbers >= self.oldest.unsqueeze(-1)
        return recent if self.chosen is None else recent & self.chosen

    @property
    def keeps_all(self) -> bool:
        """Whether no trial leaves out any row from ``dropped`` on, as far as is known."""
        return self.oldest is None and self.chosen is None and self.aside is None

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
        log, chosen, aside = self.history, self.chosen, self.aside
        if chosen is not None:
            chosen = torch.nn.functional.pad(chosen, (0, 1), value=1)
        if aside is not None:
            aside = torch.nn.functional.pad(aside, (0, 1))
        origin, empty = self.origin, self.empty
        if empty is not None:  # or the first is known
            started = time if all_good else torch.where(noise.isfinite(), time, math.inf)
            origin = torch.minimum(origin, started)
            empty = None if all_good else empty & noise.isinf()
        return self._replace(
            rounds=self.rounds + 1,
            chosen=chosen,
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
        """What is left once rules have answered: rows that all keep, and a reset if one says so.

        A device is not waited for, so that on a CPU alone it shows that nothing has changed where a
        rule answers for every trial. What is left is the same.

        Args:
            answers: Of each rule.
            all_good: Where the newest row has just been told: whether it is known to have failed
                in no trial.

        Returns:
            The data, whose posterior is still that of all rows, and what has changed.

        Raises:
            InputDataError: If an answer does not fit the log.
        """
        heard = [checked(answer, self.time, self.rounds - self.dropped) for answer in answers]
        named = [one.aside for one in heard if one.aside is not None]
        aside = functools.reduce(torch.logical_or, named) if named else None
        looks = _looks(self)
        if aside is not None and looks and not bool(aside.any()):
            aside = None
        if aside is None and self.aside is None:
            return self._keep(heard, all_good)
        whole = self._replace(aside=None)
        data, change = whole._keep(heard, all_good)
        same = looks and aside is not None and self.aside is not None
        if same and torch.equal(aside, self.aside):  # type: ignore[arg-type]
            if data is whole:
                return self, change
        else:
            change = change.with_any_rows()
        if aside is not None:
            data = data._replace(aside=aside[..., data.dropped - self.dropped :])
        return data._replace(empty=~data.good.any(-1)), change

    def _keep(self, answers: list[Kept], all_good: bool | None) -> tuple[Data, Change]:
        """The same as :meth:`keep` where no row is set aside."""
        length, looks = self.rounds - self.dropped, _looks(self)
        newest, change, left = length, Change(), self
        fresh = bool(all_good)  # whether the newest row is good in all trials, and kept
        resets: list[Tensor] = []
        for one in answers:
            fresh = fresh and one.rows is None and one.newest != 0
            if one.newest is not None and one.where is None:
                newest = min(newest, one.newest)
            before, left, clears = left, left._heard(one, looks), False
            if left is not before:
                clears = _clears(one, looks)
                change = change.with_cleared(one.where) if clears else change.with_any_rows()
            if isinstance(one.reset, Tensor) and not (looks and not bool(one.reset.any())):
                resets.append(one.reset)
                change = change if clears else change._replace(restarts=True)
            elif one.reset is True:
                resets.append(torch.ones_like(self.time, dtype=torch.bool))
                change = change._replace(restarts=True)
        if newest == length and left is self and not resets:
            return self, change
        change = change._replace(leaving=range(self.dropped, self.rounds - newest))
        if looks and not left.keeps_all:
            newest = min(newest, _newest_in_use(left.kept))
        chosen = None if left.chosen is None else left.chosen[..., length - newest :]
        data = left._replace(dropped=self.rounds - newest, chosen=chosen)
        if not fresh:
            data = data._replace(empty=~data.good.any(-1))
        if not resets:
            return data, change
        reset = functools.reduce(torch.logical_or, resets)
        alone = change.cleared is reset and not change.any_rows  # no other rule drops the newest
        if alone and all_good is not None:
            return data._begun_with_newest(reset, all_good), change._replace(reset=reset)
        mask = self.mask
        if mask is not None:
            reset = reset & mask.any(-1)  # a trial alone is not asked about an empty log
        return data._begun_anew(reset), change._replace(reset=reset)

    def _heard(self, answer: Kept, looks: bool) -> Data:
        """The data once an answer for single trials or rows has been heard.

        Looked at, they are the same object where nothing has changed.
        """
        if answer.rows is not None:
            rows = answer.rows if self.chosen is None else answer.rows & self.chosen
            left = self._replace(chosen=rows)
        elif answer.where is None or answer.newest is None:
            return self
        else:
            first = self.rounds - answer.newest
            if first <= self.dropped or (looks and not bool(answer.where.any())):
                return self
            oldest = self.oldest
            if oldest is None:
                oldest = torch.full_like(self.since, self.dropped)
            later = oldest.masked_fill(answer.where, first)
            if first < self.latest:  # what has left never comes back
                later = torch.maximum(oldest, later)
            left = self._replace(oldest=later, latest=max(first, self.latest))
        return self if looks and torch.equal(left.kept, self.kept) else left

    def _begun_with_newest(self, reset: Tensor, all_good: bool) -> Data:
        """The clocks counted from the newest row, alone in some trials, `batch_shape`."""
        started = self.time
        if not all_good:
            started = torch.where(
                self.history.noise.row(self.rounds - 1) < math.inf, started, math.inf
            )
        return self._replace(
            origin=torch.where(reset, started, self.origin), since=self.since.masked_fill(reset, 1)
        )

    def _begun_anew(self, reset: Tensor) -> Data:
        """The clocks counted from the first row kept, in some trials, `batch_shape`."""
        log, first = self.history, self.dropped
        noise, time = log.noise.tensor(first), log.time.tensor(first)
        starts = torch.where(self.kept & (noise < math.inf), time, math.inf)
        earliest = torch.nn.functional.pad(starts, (0, 1), value=math.inf).amin(-1)
        return self._replace(
            origin=torch.where(reset, earliest, self.origin),
            since=self.since.masked_fill(reset, 1),
        )

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

    def with_any_rows(self) -> Change:
        """The same change, but any other rows may have left as well."""
        return self._replace(any_rows=True)

    def with_cleared(self, trials: Tensor | None) -> Change:
        """The same change, with more trials that were reset and keep only the newest row."""
        assert trials is not None
        cleared = trials if self.cleared is None else self.cleared | trials
        return self._replace(cleared=cleared)


def _looks(data: Data) -> bool:
    """Whether looking at a tensor costs no waiting."""
    return data.time.device.type == "cpu"


def _clears(answer: Kept, looks: bool) -> bool:
    """Whether an answer leaves the newest row alone just where it is a reset."""
    where, reset = answer.where, answer.reset
    if answer.newest != 1 or where is None or not isinstance(reset, Tensor):
        return False
    return reset is where or (looks and torch.equal(reset, where))


def _newest_in_use(mask: Tensor) -> int:
    """How many rows there are from the oldest that some trial keeps, of `batch_shape x n`."""
    used = mask.flatten(0, -2).any(0) if mask.dim() > 1 else mask
    if used.numel() == 0:
        return 0
    return int(len(used) - used.to(torch.uint8).argmax()) if bool(used.any()) else 0
