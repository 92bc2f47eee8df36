"""The log of observations and its retained rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.base import Retained
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.tensors import Rows, append_together

if TYPE_CHECKING:
    from botorch_tv.gp.arm_engine import RunningPosterior
    from botorch_tv.gp.cholesky import GrowingFactor
    from botorch_tv.gp.mixture.running import RunningMixture

Prior = Basis | BoxPrior | BankPrior
"""The prior on a domain: a kernel factored over arms, a prior on a box, or a bank of candidate
processes."""


class Present(NamedTuple):
    """The time of a decision."""

    now: Tensor
    """The present, `batch_shape`."""
    reference: Tensor
    """Time from which the lags of observations count back: now, or the time of the newest
    observation, `batch_shape`."""


class History(NamedTuple):
    """The log of n rounds."""

    choice: Rows
    """Choices: arms, `batch_shape x n`, int64; on a box points, `batch_shape x n x d`, with the
    context."""
    y: Rows
    """Observations, `batch_shape x n`; 0 for a failed observation."""
    noise: Rows
    """Noise variances of the observations, `batch_shape x n`; infinite for a failed observation."""
    time: Rows
    """Times of the observations, `batch_shape x n`, float64."""


class Change(NamedTuple):
    """The joint effect of all rules of retention on the n rows from row ``dropped`` on."""

    leaving: range
    """Numbers of the oldest rows, which all trials drop."""
    rows: Tensor | None
    """Which rows each trial retains apart from ``leaving``, `batch_shape x n`, bool; None for
    all."""
    aside: Tensor | None
    """Which rows are set aside temporarily, `batch_shape x n`, bool; None for none."""
    reset: Tensor | None
    """Which trials are reset, `batch_shape`, bool; None for none."""
    cleared: Tensor | None
    """Which trials are reset and retain only the newest row, `batch_shape`, bool; None for none."""
    others: bool
    """Whether anything else may change: a row that is in neither ``leaving`` nor a cleared trial,
    or the origin of a trial that retains older rows."""


class Data(NamedTuple):
    """The inputs of a posterior, except the process: the prior, the log and its retained rows."""

    prior: Prior
    """The kernel factored over the arms of a grid, or the prior on a box."""
    rounds: int
    """Number of observations, the same for all trials."""
    dropped: int
    """Number of the oldest observations that no trial retains."""
    rule_mask: Tensor | None
    """Which rows each trial retains, among rows from number ``dropped`` on,
    `batch_shape x (rounds - dropped)`, bool; None if all trials retain all these rows."""
    aside: Tensor | None
    """Which rows are set aside temporarily, bool, of the shape of ``rule_mask``; None for none."""
    time: Tensor
    """Time of the newest observation, 0 before the first, `batch_shape`, float64."""
    first_time: Tensor
    """Time of the first observation ever, `batch_shape`, float64."""
    origin: Tensor
    """Time of the first observation after the last reset; infinite before that observation;
    `batch_shape`."""
    began: Tensor
    """Number of rounds before the last reset, 0 without a reset, `batch_shape`, int64."""
    least_noise: float
    """Lower bound of the noise variances of all observations; 0 if the variances were not
    checked."""
    empty: Tensor | None
    """Which trials retain no successful observation, `batch_shape`, bool; None if every trial
    retains one."""
    history: History
    running: RunningPosterior | RunningMixture | GrowingFactor | None = None
    """The running posterior over the arms, or the cached factor of regressions on a box; None if
    every round computes from the log."""

    @classmethod
    def none(cls, prior: Prior, choices: Rows, noise: float, shape: Size) -> Data:
        """The data before any observation.

        Args:
            prior: The prior on the domain.
            choices: An empty log of choices.
            noise: Default noise variance of an observation.
            shape: The `batch_shape`.
        """
        dtype, device = prior.variance.dtype, prior.variance.device
        time = torch.zeros(shape, dtype=torch.float64, device=device)
        return cls(
            prior=prior,
            rounds=0,
            dropped=0,
            rule_mask=None,
            aside=None,
            time=time,
            first_time=time,
            origin=time + math.inf,
            began=torch.zeros(shape, dtype=torch.int64, device=device),
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
        """Mask of the rows in use, from row ``dropped`` on, `batch_shape x n`, bool.

        None means that row ``dropped`` and all later rows are in use.
        """
        if self.aside is None:
            return self.rule_mask
        return ~self.aside if self.rule_mask is None else self.rule_mask & ~self.aside

    @property
    def since(self) -> Tensor:
        """Rounds t' since the last reset, including the current round, `batch_shape`."""
        return self.rounds + 1 - self.began

    @property
    def retained(self) -> Tensor:
        """As :attr:`mask`, but always a tensor, even if all rows are in use."""
        mask = self.mask
        if mask is not None:
            return mask
        shape = (*self.time.shape, self.rounds - self.dropped)
        return torch.ones((), dtype=torch.bool, device=self.time.device).expand(shape)

    @property
    def good(self) -> Tensor:
        """Mask of retained rows that did not fail, from row ``dropped`` on, `batch_shape x n`."""
        return self.retained & self.history.noise.tensor(self.dropped).isfinite()

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
        """The data with one more observation, which is retained.

        Args:
            choice: Arms, `batch_shape`; or points, `batch_shape x (d + c)`.
            y: Measurements, `batch_shape`; 0 for a failed measurement.
            noise: Noise variances, `batch_shape`; infinite for a failed measurement.
            time: Times of the measurements, `batch_shape`.
            least_noise: A lower bound of the noise variances.
            all_good: Whether the caller is certain that no measurement failed.
        """
        log, rule_mask, aside = self.history, self.rule_mask, self.aside
        if rule_mask is not None:
            rule_mask = torch.nn.functional.pad(rule_mask, (0, 1), value=1)
        if aside is not None:
            aside = torch.nn.functional.pad(aside, (0, 1))
        origin, empty = self.origin, self.empty
        if empty is not None:  # if ``empty`` is None, every trial has an origin
            started = time if all_good else torch.where(noise.isfinite(), time, math.inf)
            origin = torch.minimum(origin, started)
            empty = None if all_good else empty & noise.isinf()
        return self._replace(
            rounds=self.rounds + 1,
            rule_mask=rule_mask,
            aside=aside,
            time=time,
            first_time=time if self.rounds == 0 else self.first_time,
            origin=origin,
            least_noise=min(self.least_noise, least_noise),
            empty=empty,
            history=History(
                log.choice.append(choice),
                *append_together((log.y, log.noise, log.time), (y, noise, time)),
            ),
        )

    def change(self, answers: Sequence[Retained], *, before_choice: bool = False) -> Change:
        """The joint change by all rules: any rule may drop a row, set it aside, or reset a trial.

        On a CPU, masks are read to find out whether they change anything. On another device, they
        are not read, because the host would wait; then ``others`` may be True without a change.

        Args:
            answers: The answer of each rule; answers of users' rules must have been checked.
            before_choice: Whether the rules were asked before a choice, not after an observation.
        """
        looks, n = _looks(self), self.rounds - self.dropped
        newest, retained, others = n, self.rule_mask, False
        aside: Tensor | None = None
        reset: Tensor | None = None
        cleared: Tensor | None = None
        for answer in answers:
            number, rows, resets, clears = _effect(answer, self.time, n, looks)
            newest = min(newest, number)
            if rows is not None:
                rows = rows if retained is None else rows & retained
                same = looks and bool((rows if retained is None else rows == retained).all())
                rows, retained = (None, retained) if same else (rows, rows)
            if clears:
                cleared = _either(cleared, resets)
            else:
                others = others or rows is not None or resets is not None
            reset, aside = _either(reset, resets), _either(aside, answer.aside)
        if reset is not None and before_choice and self.rule_mask is not None:
            reset = reset & self.rule_mask.any(-1)  # an empty log has nothing to reset
        aside = _some(aside, self.time, looks)
        if aside is None or self.aside is None:
            others = others or aside is not self.aside
        else:
            others = others or not (looks and torch.equal(aside, self.aside))
        leaving = range(self.dropped, self.rounds - newest)
        return Change(leaving, retained, aside, reset, cleared, others)

    def keep(self, change: Change, *, all_good: bool = False) -> Data:
        """The data after a change of the retained rows; the running posterior is not yet updated.

        Args:
            change: The change.
            all_good: Whether an observation was just made and certainly succeeded in all trials.
        """
        leaving, rows, aside, reset, cleared, others = change
        if not (leaving or others or cleared is not None):
            return self
        n, first = self.rounds - self.dropped, len(leaving)
        fresh = all_good and first < n and not others  # the newest row is in use
        if rows is not None:
            if _looks(self):  # drop the oldest rows that no trial retains
                used = rows.reshape(-1, n).any(0)
                first = max(first, int(used.to(torch.uint8).argmax()) if bool(used.any()) else n)
            rows = rows[..., first:]
        data = self._replace(dropped=self.dropped + first, rule_mask=rows, aside=None)
        if reset is not None:
            origin = self.time
            if not fresh or reset is not cleared:
                starts = torch.where(data.good, self.history.time.tensor(data.dropped), math.inf)
                origin = torch.nn.functional.pad(starts, (0, 1), value=math.inf).amin(-1)
            data = data._replace(
                origin=torch.where(reset, origin, self.origin),
                began=self.began.masked_fill(reset, self.rounds),
            )
        data = data._replace(aside=None if aside is None else aside[..., first:])
        return data if fresh else data._replace(empty=~data.good.any(-1))

    @property
    def elapsed(self) -> Tensor:
        """Time since the origin for row ``dropped`` and every later row, `batch_shape x n`.

        Rows before the origin are not in use; their times are 0.
        """
        time = self.history.time.tensor(self.dropped)
        return (time - self.origin.unsqueeze(-1)).clamp_min(0)


def _effect(
    answer: Retained, time: Tensor, n: int, looks: bool
) -> tuple[int, Tensor | None, Tensor | None, bool]:
    """The effect of a rule's answer on n rows.

    Returns:
        Four values: the number of newest rows to retain in all trials; which rows to retain,
            `batch_shape x n`, or None for all; the trials to reset, `batch_shape`, or None for
            none; and whether these trials retain the newest row and no other.
    """
    where, rows, newest = _some(answer.where, time, looks), answer.rows, answer.newest
    resets = where if answer.reset is answer.where else _some(answer.reset, time, looks)
    clears = newest == 1 and where is not None and resets is where
    if newest is None or answer.where is None:
        return n if newest is None else newest, rows, resets, clears
    if where is not None and newest < n:
        older = (~where).unsqueeze(-1).expand(*where.shape, n - newest)
        rows = torch.nn.functional.pad(older, (0, newest), value=1)
    return n, rows, resets, clears


def _some(mask: Tensor | bool | None, time: Tensor, looks: bool) -> Tensor | None:
    """The trials or rows that a mask selects; None if certainly none are selected."""
    if isinstance(mask, bool):
        return torch.ones_like(time, dtype=torch.bool) if mask else None
    return None if mask is None or (looks and not bool(mask.any())) else mask


def _either(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The union of two masks; None stands for an empty mask."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _looks(data: Data) -> bool:
    """Whether tensors can be read without waiting for a device."""
    return data.time.device.type == "cpu"
