"""The log of observations, and the only place where it is decided which rows are retained."""

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
"""A kernel factored over arms, one held for points of a box, or a bank of processes."""


def checked(answer: Retained | Tensor, time: Tensor, rows: int) -> Retained:
    """An answer of a rule as such.

    Args:
        answer: What its ``keep`` returned.
        time: Of the newest observation, `batch_shape`.
        rows: How many it was asked about, n.

    Raises:
        InputDataError: If it does not fit these, or contradicts itself.
    """
    retained = Retained(rows=answer) if isinstance(answer, Tensor) else answer
    if not isinstance(retained, Retained):
        raise InputDataError(
            f"a retention answered {shown(answer)}, but keep() returns a Retained, such as "
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
            f"a retention keeps the newest {shown(newest)} rows, but it must be a whole number "
            "from 0 on; answer rows=, a bool per row, where it differs by trial."
        )
    if (where is not None and newest is None) or (newest is not None and retained.rows is not None):
        raise InputDataError(
            "a retention answered with rows= beside newest=, or with where= alone; answer rows= or "
            "newest=, and newest= beside where=, newest=0 to forget all rows there."
        )
    return retained


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


Change = tuple[range, Tensor | None, bool]
"""How a set of rows has changed: numbers of the oldest rows, which all trials leave out that kept
them; trials that were reset and keep the newest row only, `batch_shape`, bool, None for none; and
whether any others may have left, or a clock have begun anew where older rows are left."""


class Data(NamedTuple):
    """All that a posterior is computed from, besides the process: the log, and what is kept."""

    prior: Prior
    """The kernel factored over the arms of a grid, or what is held of it on a box."""
    rounds: int
    """Observations told, the same for all trials."""
    dropped: int
    """Oldest observations that no trial keeps."""
    rule_mask: Tensor | None
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
    began: Tensor
    """Rounds before the last reset, 0 where there was none, `batch_shape`, int64."""
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
        """Which rows from ``dropped`` on are in use, `batch_shape x n`, bool; None for all."""
        if self.aside is None:
            return self.rule_mask
        return ~self.aside if self.rule_mask is None else self.rule_mask & ~self.aside

    @property
    def since(self) -> Tensor:
        """Rounds t' since the last reset, the round being decided included, `batch_shape`."""
        return self.rounds + 1 - self.began

    @property
    def retained(self) -> Tensor:
        """The mask of the rows kept, also if all are kept."""
        mask = self.mask
        if mask is not None:
            return mask
        shape = (*self.time.shape, self.rounds - self.dropped)
        return torch.ones((), dtype=torch.bool, device=self.time.device).expand(shape)

    @property
    def good(self) -> Tensor:
        """Which rows from ``dropped`` on a trial keeps and can learn from, `batch_shape x n`."""
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
        """The data with one observation more, which is kept.

        Args:
            choice: Arms, `batch_shape`, or points, `batch_shape x (d + c)`.
            y: `batch_shape`; 0 where the measurement failed.
            noise: Variances, infinite where it failed, `batch_shape`.
            time: `batch_shape`.
            least_noise: A lower bound of the variances.
            all_good: Whether no measurement failed, as far as that is known without looking.
        """
        log, rule_mask, aside = self.history, self.rule_mask, self.aside
        if rule_mask is not None:
            rule_mask = torch.nn.functional.pad(rule_mask, (0, 1), value=1)
        if aside is not None:
            aside = torch.nn.functional.pad(aside, (0, 1))
        origin, empty = self.origin, self.empty
        if empty is not None:  # or the first is known
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
        """The data that are left by the answers of rules: rows that all retain, and resets.

        A device is not waited for, so that on a CPU alone it shows that nothing has changed where a
        rule answers for every trial. What is left is the same.

        Args:
            answers: Of each rule; those of users have to be :func:`checked`.
            all_good: Right after an observation: whether it is known to have failed in no trial.

        Returns:
            The data, whose posterior is still that of all rows; what has changed; and which trials
            were reset, `batch_shape`, bool, None for none.
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
                # Nothing has changed where all that was retained stays.
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
        fresh = bool(all_good) and newest > 0 and not any_rows  # the newest row: good, and retained
        if leaving or any_rows or cleared is not None:
            if looks and rule_mask is not None:  # rows that no trial retains any more
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
                reset = reset & self.rule_mask.any(-1)  # an empty log is not asked about
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
        """Times of rows from ``dropped`` on, counted from the origin, `batch_shape x n`.

        Those before it belong to rows not in use, for which any finite number will do.
        """
        time = self.history.time.tensor(self.dropped)
        return (time - self.origin.unsqueeze(-1)).clamp_min(0)


def _either(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Where one of two masks is set, None for nowhere."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _looks(data: Data) -> bool:
    """Whether looking at a tensor costs no waiting."""
    return data.time.device.type == "cpu"
