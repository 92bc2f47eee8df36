"""The posterior over all arms of a grid, updated in place by four operations.

The operations are: let time pass (:meth:`~RunningPosterior.move`), add an observation
(``observe``), remove an observation (``observe`` with ``remove``), and reset trials to the prior
(``clear``). All operations take tensors of fixed shape, copy no value to the host, and do the same
work for every trial. The operations are used by the methods ``ask`` and ``tell``, by studies,
and in recorded CUDA graphs.

Let D be the prior covariance minus the posterior covariance. The passage of time multiplies D by
a², where a is the factor by which covariances fall. An observation adds to D the outer product of a
vector, called the step, with itself. In this file the played arms represent D; in
:mod:`botorch_tv.gp.feature_filter` features represent D.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import torch
from torch import Size, Tensor

from botorch_tv.gp.basis import Basis
from botorch_tv.gp.linalg import clear_, scaled
from botorch_tv.gp.regression import Observations, Regression, Trend, covariance_form
from botorch_tv.gp.tensors import room_for

FIRST_SLOTS = 16
"""Initial number of slots in memory; each played arm takes one slot."""
LOOK = 8
"""Number of rounds between two readings of the counts of used slots on a CPU. A GPU reads them more
rarely, because the host must wait for each reading."""


class RunningPosterior(ABC):
    """The posterior over all arms at the time of the newest observation, initially the prior.

    Args:
        basis: The basis of the kernel over the arms.
        shape: The `batch_shape`.
        variance: Prior variance, `M` or `batch_shape x M`.
        trend: Whether the prior mean is estimated.

    Attributes:
        mean: Posterior mean for the prior mean 0, `batch_shape x M`.
        variance: Posterior variance, `batch_shape x M`; rounding may make it slightly negative.
        information_gain: ½ Σ ln(1 + var / noise) over the retained observations, `batch_shape`.
        trend: Regression that estimates the prior mean; None if the mean is given.
    """

    def __init__(self, basis: Basis, shape: Size, variance: Tensor, *, trend: bool) -> None:
        zero = basis.variance.new_zeros(shape)
        self.variance = variance.expand(*shape, basis.arms).clone()
        self.mean = torch.zeros_like(self.variance)
        self.information_gain, self.trend = zero, None
        if trend:
            self.trend = Trend(torch.zeros_like(self.mean), zero.clone(), zero.clone())

    @staticmethod
    @abstractmethod
    def numbers(basis: Basis, rounds: int) -> int:
        """Number of values per trial in memory after ``rounds`` observations of different arms."""

    @abstractmethod
    def at(self, basis: Basis, index: Tensor) -> Tensor:
        """The rows of D for q arms, in coordinates of the basis, `batch_shape x q -> * x q x r`."""

    @abstractmethod
    def matrix(self, basis: Basis) -> Tensor:
        """D in coordinates of the basis, `batch_shape x r x r`."""

    def draw(self, basis: Basis, square: Tensor | None, prior: Tensor | None, n: Tensor) -> Tensor:
        """Coordinates of a sample with mean 0 and the posterior covariance, `batch_shape x r`.

        Args:
            basis: The basis of the kernel over the arms.
            square: Factor on D, the prior minus the posterior covariance, `batch_shape`; None for
                1.
            prior: Factor on the prior covariance, `batch_shape`; None means 1.
            n: Standard normal variates, `batch_shape x p`.
        """
        matrix = self.matrix(basis)
        return basis.draw(matrix if square is None else square[..., None, None] * matrix, prior, n)

    def taken(self, of: RunningPosterior) -> Self:
        """This posterior with the mean, variance, information gain and trend of another object."""
        self.mean, self.variance, self.trend = of.mean, of.variance, of.trend
        self.information_gain = of.information_gain
        return self

    def _regressed(self, posterior: Regression, expand: Callable[[Tensor], Tensor]) -> None:
        """Take the mean, the trend and the information gain of a regression."""
        self.mean, self.information_gain = expand(posterior.coordinates), posterior.information_gain
        if posterior.trend is not None:
            self.trend = posterior.trend._replace(response=expand(posterior.trend.response))
            self.mean = self.mean + self.trend.constant.unsqueeze(-1) * self.trend.response

    def copied(self) -> Self:
        """A copy in its own memory."""
        made = copy.copy(self)
        parts = vars(made)
        for name, part in parts.items():
            if isinstance(part, Tensor):
                parts[name] = part.clone()
        if self.trend is not None:
            made.trend = Trend(*(part.clone() for part in self.trend))
        return made

    def move(self, basis: Basis, attenuation: Tensor, square: Tensor, grown: Tensor) -> None:
        """Let time pass for a moving objective: multiply the mean by the factor a, and D by a².

        Args:
            basis: The basis of the kernel over the arms.
            attenuation: Factor a by which covariances fall between the time of this posterior and
                now, `batch_shape`.
            square: a², `batch_shape`.
            grown: (v - a² u) / k(x, x), `batch_shape`, where a is ``attenuation``, v is the prior
                variance now, and u is the prior variance at the time of this posterior.
        """
        each = attenuation.unsqueeze(-1)
        self.mean.mul_(each)
        self.variance.mul_(square.unsqueeze(-1)).addcmul_(grown.unsqueeze(-1), basis.variance)
        if self.trend is not None:
            self.trend.response.mul_(each)
        self._shrink(square)

    def observe(
        self,
        basis: Basis,
        index: Tensor,
        y: Tensor,
        noise: Tensor,
        prior: Tensor | None = None,
        *,
        remove: bool = False,
    ) -> None:
        """Add an observation, [C17] eq. (19)-(21), or remove an earlier observation.

        An observation with noise variance n is removed exactly by a second observation of the same
        value with noise variance -n, because precisions add. An observation of infinite noise
        changes nothing.

        Args:
            basis: The basis of the kernel over the arms.
            index: Arm measured, `batch_shape`.
            y: Observation minus the prior mean, `batch_shape`.
            noise: Noise variance, positive, `batch_shape`.
            prior: Factor on the prior covariance, `batch_shape`; None means 1.
            remove: Whether to remove the observation instead of adding it.
        """
        sign = -1 if remove else 1
        signed, root, row = self._step(basis, index, noise, prior, sign)
        out = basis.scratch.take("arms", self.mean.shape, self.mean)
        step = self._on_all_arms(basis, row, out)
        residual = (y - basis.value(self.mean, index)).mul_(root)
        self.mean.addcmul_(step, residual.unsqueeze(-1), value=sign)
        self.variance.addcmul_(step, step, value=-sign)
        self.information_gain.add_((signed / noise).log1p_(), alpha=0.5)
        if self.trend is not None:  # the step also updates the trend, whose observation is 1
            ones = (1 - basis.value(self.trend.response, index)).mul_(root)
            self.trend.response.addcmul_(step, ones.unsqueeze(-1), value=sign)
            self.trend.cross.addcmul_(ones, residual, value=sign)
            self.trend.weight.addcmul_(ones, ones, value=sign)

    def clear(self, variance: Tensor, trials: Tensor) -> None:
        """Reset trials to the prior; the mask ``trials``, `batch_shape`, selects them.

        In the selected trials, the time since the origin restarts at 0, and the posterior variance
        becomes ``variance``, the prior variance at the origin, `M`.
        """
        clear_(self.mean, trials)
        clear_(self.variance, trials, variance)
        self.information_gain.masked_fill_(trials, 0)
        if self.trend is not None:
            clear_(self.trend.response, trials)
            self.trend.cross.masked_fill_(trials, 0)
            self.trend.weight.masked_fill_(trials, 0)
        self._clear(trials)

    def _on_all_arms(self, basis: Basis, row: Tensor, out: Tensor) -> Tensor:
        """The step with coordinates ``row`` on all arms, `batch_shape x M`; may use ``out``."""
        return basis.expand(row, out=out)

    @abstractmethod
    def _shrink(self, square: Tensor) -> None:
        """Multiply D by a factor per trial, `batch_shape`."""

    @abstractmethod
    def _clear(self, trials: Tensor) -> None:
        """Set D to 0 in the trials that a mask, `batch_shape`, selects."""

    @abstractmethod
    def _step(
        self, basis: Basis, index: Tensor, noise: Tensor, prior: Tensor | None, sign: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Add the outer product of a step to D, or subtract it if ``sign`` is -1.

        Returns:
            Three tensors; v is the posterior variance of the arm before the step.
            1. ``sign`` v, `batch_shape`.
            2. r = (noise + ``sign`` v)^(-1/2), `batch_shape`.
            3. The coordinates of the step, which is r times the arm's posterior covariance with all
            arms.
        """


class PlayedArms(RunningPosterior):
    """A posterior in terms of the played arms A: D = K_·A P K_A· with a matrix P.

    For a static objective, P = (K_AA + N_A)⁻¹, where N_A contains the noise variances of the arms.
    Each trial fills slots with its own arms, in the order in which it first played them. An
    observation of the arm x in slot j changes P to P + z zᵀ / s, whether the arm is new or not.
    Here e_j is the unit vector, v is the factor on the prior covariance, z = v e_j - P k_A(x), and
    s = var(x) + noise (Sherman-Morrison, or bordering). The formula P + z zᵀ / s is also valid
    after D has been attenuated.

    Attributes:
        arms: The arm in every slot, `batch_shape x slots`, int64.
        inverse: P, `batch_shape x slots x slots`, zero in slots not used.
        removes: Whether observations may be removed, as those that leave a window are.
        precision: If so, the sum of 1 / noise over the observations in every slot,
            `batch_shape x slots`.
        count: Number of used slots, `batch_shape`, int64; below the number of allocated slots.
        used: Upper bound of ``count`` over all trials.
    """

    removes = False

    def __init__(self, basis: Basis, shape: Size, variance: Tensor, *, trend: bool) -> None:
        super().__init__(basis, shape, variance, trend=trend)
        self.inverse = variance.new_zeros(*shape, FIRST_SLOTS, FIRST_SLOTS)
        self.precision = torch.zeros_like(self.inverse[..., 0])
        self.arms = torch.zeros_like(self.precision, dtype=torch.int64)
        self.count, self.used = torch.zeros_like(self.arms[..., 0]), 0

    @classmethod
    def of_observations(cls, basis: Basis, observations: Observations) -> Self:
        """The posterior from one regression, with a slot for each observation.

        Args:
            basis: The basis of the kernel over the arms.
            observations: Retained observations with their precisions; an arm may occur several
                times.
        """
        posterior = covariance_form(basis, observations, in_rows=True)
        arms, rows = observations.choice, posterior.rows
        made = cls(basis, arms.shape[:-1], basis.variance, trend=False)
        made._regressed(posterior, lambda weights: basis.mixture(arms, weights))
        prior = scaled(basis.variance, observations.prior_factor)
        made.variance = prior - basis.sum_of_squares(rows @ basis.row(arms))
        made.precision = observations.precision_root.square()
        made.arms, made.inverse, made.used = arms, rows.mT @ rows, arms.shape[-1]
        made.count += made.used
        made.enlarge(room_for(made.used + 1, FIRST_SLOTS))
        return made

    @staticmethod
    def numbers(basis: Basis, rounds: int) -> int:
        width = min(rounds, basis.arms, basis.size + 1)
        slots = room_for(width + 1, FIRST_SLOTS)
        older = slots // 2 if slots > FIRST_SLOTS else 0  # the old slots while they are copied
        return slots * (slots + 1) + max(older**2, basis.numbers_of_mixture(width))

    def at(self, basis: Basis, index: Tensor) -> Tensor:
        arms, inverse = self.slots(self.used)
        return (basis.between(index, arms) @ inverse) @ basis.row(arms)

    def matrix(self, basis: Basis) -> Tensor:
        arms, inverse = self.slots(self.used)
        rows = basis.row(arms)
        return rows.mT @ inverse @ rows

    def reserve(self, most: int) -> None:
        """Make sure that every trial has a free slot for a new arm.

        To read the counts of used slots from a GPU, the host must wait for the GPU. The
        counts of used slots are read from a GPU only if their upper bound ``used`` reaches the
        number of slots or exceeds ``most``.
        """
        slots, on_cpu = self.arms.shape[-1], self.arms.device.type == "cpu"
        self.used += 1
        if self.used == slots or self.used > most or (on_cpu and self.used % LOOK == 0):
            self.used = int(self.count.max()) if self.count.numel() > 0 else 0
        if self.used == slots:
            self.enlarge(2 * slots)

    def enlarge(self, slots: int) -> None:
        """Move the arms to new memory with more slots."""
        more = slots - self.arms.shape[-1]
        self.arms = torch.nn.functional.pad(self.arms, (0, more))
        self.precision = torch.nn.functional.pad(self.precision, (0, more))
        self.inverse = torch.nn.functional.pad(self.inverse, (0, more, 0, more))

    def slots(self, width: int) -> tuple[Tensor, Tensor]:
        return self.arms[..., :width], self.inverse[..., :width, :width]

    def _shrink(self, square: Tensor) -> None:
        self.slots(self.used)[1].mul_(square[..., None, None])

    def _clear(self, trials: Tensor) -> None:
        clear_(self.slots(self.used)[1], trials)
        if self.removes:
            clear_(self.precision, trials)
        self.count.masked_fill_(trials, 0)

    def _step(
        self, basis: Basis, index: Tensor, noise: Tensor, prior: Tensor | None, sign: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        if sign < 0:
            return self._removed(index, noise)
        place = index.unsqueeze(-1)
        # A new arm takes the first free slot; an arm with a slot leaves it free.
        self.arms.scatter_(-1, self.count.unsqueeze(-1), place)
        trials, width = self.count.numel(), self.used + 1  # unused slots have weight 0
        arms, inverse = self.slots(width)
        slot = (arms == place).view(torch.uint8).argmax(-1, keepdim=True)
        between = basis.between(place, arms).view(trials, 1, width)
        square = inverse.reshape(trials, width, width)
        z = torch.baddbmm(between, between, square, beta=0, alpha=-1).view_as(arms)
        if prior is None:
            z.scatter_(-1, slot, 1.0, reduce="add")
        else:
            z.scatter_add_(-1, slot, prior.unsqueeze(-1))
        if self.removes:
            self.precision.scatter_add_(-1, slot, noise.reciprocal().unsqueeze(-1))
        torch.maximum(self.count, slot.squeeze(-1).add_(1), out=self.count)
        # The arm's posterior variance is the inner product of z and the arm's prior covariances.
        column = z.view(trials, width, 1)
        variance = torch.baddbmm(between[..., :1], between, column, beta=0).view_as(index)
        root = (variance + noise).rsqrt_()
        z.mul_(root.unsqueeze(-1))
        inverse.addcmul_(z.unsqueeze(-1), z.unsqueeze(-2))
        return variance, root, z

    def _removed(self, index: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The result of :meth:`_step` for the removal of an observation of a static objective.

        With the precision n of the arm's slot j, z = P_j / n and v = (n - P_jj) / n², without the
        difference of noise and variance, which are nearly equal. If the arm has no slot, the noise
        is infinite; no precision is 0, which would be divided by 0.
        """
        arms, inverse = self.slots(self.used + 1)
        each, retained = noise.reciprocal().unsqueeze(-1), self.precision[..., : arms.shape[-1]]
        slot = retained.where(arms == index.unsqueeze(-1), -1).argmax(-1, keepdim=True)
        total = retained.gather(-1, slot).clamp_min_(1e-150)
        z = inverse.gather(-2, slot.unsqueeze(-2).expand(*arms.shape[:-1], 1, arms.shape[-1]))
        z = z.squeeze(-2)
        own = z.gather(-1, slot)
        share = (each / torch.addcmul(each * own, total, total - each)).sqrt_()
        z.mul_(share)
        self.precision.scatter_add_(-1, slot, -each)
        inverse.addcmul_(z.unsqueeze(-1), z.unsqueeze(-2), value=-1)
        signed, root = (own - total) / total.square(), total * share
        return signed.squeeze(-1), root.squeeze(-1), z

    def _on_all_arms(self, basis: Basis, row: Tensor, out: Tensor) -> Tensor:
        return basis.mixture(self.arms[..., : row.shape[-1]], row, out=out)


class SlidingArms(PlayedArms):
    """Played arms whose observations may be removed."""

    removes = True
