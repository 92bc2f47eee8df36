"""The log of observations, and the choice of the rows that are retained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.forgetting.base import Retained
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.tensors import Rows, append_together
from botorch_tv.validation import shown

if TYPE_CHECKING:
    from botorch_tv.gp.arm_engine import RunningPosterior
    from botorch_tv.gp.cholesky import GrowingFactor
    from botorch_tv.gp.mixture.filter import RunningMixture

Prior = Basis | BoxPrior | BankPrior
"""The prior on a domain: a kernel factored over arms, a prior on a box, or a bank of candidate
processes."""


def checked(answer: Retained | Tensor, time: Tensor, rows: int) -> Retained:
    """Check the answer of a retention rule, and return it as a ``Retained``.

    Args:
        answer: The result of ``keep``.
        time: Time of the newest observation, `batch_shape`.
        rows: Number n of rows in the log that was passed to the rule.

    Raises:
        InputDataError: If the answer has a wrong type or shape, or if it contradicts itself.
    """
    retained = Retained(rows=answer) if isinstance(answer, Tensor) else answer
    if not isinstance(retained, Retained):
        raise InputDataError(
            f"a retention returned {shown(answer)}, but keep() must return a Retained, such as "
            "Retained(newest=20), or a bool tensor of shape batch_shape x n."
        )
    newest, where, each = retained.newest, retained.where, time.shape
    for name in ("rows", "aside", "where", "reset"):
        mask, shape = getattr(retained, name), (*each, rows) if name in ("rows", "aside") else each
        if mask is None or (name == "reset" and isinstance(mask, bool)):
            continue
        found = (mask.dtype, mask.shape, mask.device) if isinstance(mask, Tensor) else shown(mask)
        if found != (torch.bool, shape, time.device):
            raise InputDataError(
                f"a retention answered with {name} {found}, but it must be a bool tensor of shape "
                f"{tuple(shape)} on {time.device}; compare log.time, which is batch_shape x n, "
                "with log.now.unsqueeze(-1)."
            )
    if newest is not None and (type(newest) is not int or newest < 0):
        raise InputDataError(
            f"a retention returned newest={shown(newest)}, but newest must be a whole number from "
            "0 on; return rows=, a bool per row, if trials differ."
        )
    if (where is not None and newest is None) or (newest is not None and retained.rows is not None):
        raise InputDataError(
            "a retention answered with rows= and newest=, or with where= but no newest=; return "
            "only one of rows= and newest=, and add newest= to where=; newest=0 forgets all rows."
        )
    return retained


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


Change = tuple[range, Tensor | None, bool]
"""The change of the retained rows, in three parts. First, the indices of the oldest rows, which all
trials drop. Second, the trials that were reset and retain only the newest row, `batch_shape`, bool;
None for none. Third, whether other rows may have been dropped, or a clock may have been restarted
while older rows are retained."""


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

    def keep(
        self, answers: Sequence[Retained], *, all_good: bool | None = None
    ) -> tuple[Data, Change, Tensor | None]:
        """Drop the rows that any retention rule drops, and reset the trials that any rule resets.

        On a CPU, masks are read to detect whether anything changed. On another device, masks are
        not read, because the CPU would wait for the device. If masks are not read, the returned
        change may include drops that did not occur, but the retained rows are correct.

        Args:
            answers: The answer of each rule; answers of users' rules must have passed
                :func:`checked`.
            all_good: Whether the newest observation certainly succeeded in all trials; None before
                a choice.

        Returns:
            Three results: the data, in which the running posterior is not yet updated; the change
                of the retained rows; and the trials that were reset, `batch_shape`, bool, or None
                for none.
        """
        looks, length = _looks(self), self.rounds - self.dropped
        newest, rule_mask, any_rows = length, self.rule_mask, False
        aside: Tensor | None = None
        reset: Tensor | None = None
        cleared: Tensor | None = None

        def some(mask: Tensor) -> Tensor | None:
            return None if looks and not bool(mask.any()) else mask

        for answer in answers:
            rows, where = answer.rows, None if answer.where is None else some(answer.where)
            resets = torch.ones_like(self.time, dtype=torch.bool) if answer.reset is True else None
            if isinstance(answer.reset, Tensor):
                resets = where if answer.reset is answer.where else some(answer.reset)
            if answer.newest is not None and answer.where is None:
                newest = min(newest, answer.newest)
            elif answer.newest is not None and where is not None and answer.newest < length:
                older = (~where).unsqueeze(-1).expand(*where.shape, length - answer.newest)
                rows = torch.nn.functional.pad(older, (0, answer.newest), value=1)
            if rows is not None and looks:
                # A retention rule changes nothing if it retains all rows that were retained so far.
                drops = ~rows if rule_mask is None else rule_mask & ~rows
                rows = rows if bool(drops.any()) else None
            if rows is not None:
                rule_mask = rows.clone() if rule_mask is None else rows & rule_mask
            if answer.newest == 1 and where is not None and resets is where:
                cleared = _either(cleared, where)
            elif rows is not None or resets is not None:
                any_rows = True
            reset, aside = _either(reset, resets), _either(aside, answer.aside)
        aside = None if aside is None else some(aside)
        data, leaving = self, range(self.dropped, self.rounds - newest)
        fresh = bool(all_good) and newest > 0 and not any_rows  # the newest row is in use
        if leaving or any_rows or cleared is not None:
            if looks and rule_mask is not None:  # drop rows that no trial retains
                used = rule_mask.reshape(-1, length).any(0)
                oldest = int(used.to(torch.uint8).argmax()) if bool(used.any()) else length
                newest = min(newest, length - oldest)
            if rule_mask is not None:
                rule_mask = rule_mask[..., length - newest :]
            data = self._replace(dropped=self.rounds - newest, rule_mask=rule_mask, aside=None)
            if not fresh:
                data = data._replace(empty=~data.good.any(-1))
        if reset is not None:
            if all_good is None and self.rule_mask is not None:
                reset = reset & self.rule_mask.any(-1)  # an empty log has nothing to reset
            origin = self.time
            if not fresh or reset is not cleared:
                starts = torch.where(data.good, self.history.time.tensor(data.dropped), math.inf)
                origin = torch.nn.functional.pad(starts, (0, 1), value=math.inf).amin(-1)
            data = data._replace(
                origin=torch.where(reset, origin, self.origin),
                began=self.began.masked_fill(reset, self.rounds),
            )
        if aside is not None or self.aside is not None:
            same = looks and aside is not None and self.aside is not None
            any_rows = any_rows or not (same and torch.equal(aside, self.aside))  # type: ignore[arg-type]
            if aside is not None:
                aside = aside[..., data.dropped - self.dropped :].clone()
            data = data._replace(aside=aside)
            data = data._replace(empty=~data.good.any(-1))
        return data, (leaving, cleared, any_rows), reset

    @property
    def elapsed(self) -> Tensor:
        """Time since the origin for row ``dropped`` and every later row, `batch_shape x n`.

        Rows before the origin are not in use; their times are 0.
        """
        time = self.history.time.tensor(self.dropped)
        return (time - self.origin.unsqueeze(-1)).clamp_min(0)


def _either(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The union of two masks; None stands for an empty mask."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _looks(data: Data) -> bool:
    """Whether tensors can be read without waiting for a device."""
    return data.time.device.type == "cpu"
