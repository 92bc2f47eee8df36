"""The posterior on a box, in few features; a rank-one step updates it in every round."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.gp.arms import Recursion, log_numbers, running_of
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior, PointBasis, point_basis
from botorch_tv.gp.cholesky import Factor, GrowingFactor
from botorch_tv.gp.data import Change, Data, Present
from botorch_tv.gp.feature_filter import Filter
from botorch_tv.gp.points import STARTING_POINTS, GaussianPosterior, PointInference
from botorch_tv.gp.process import Normal, Process, SearchSizes
from botorch_tv.validation import settle_number

KERNEL_SHARE = 1 / 100
"""Largest error of the approximated kernel, as a share of the product of the tolerance and the
noise standard deviation, in units of the prior. If e is the error of the kernel divided by the
noise standard deviation, measured errors are at most 15 e for means and 4 e for standard
deviations."""
NOISE_SHARE = 1 / 16
"""Smallest noise variance of an observation that the basis functions support, as a share of the
strategy's noise variance."""
LEAST_SHARE = 1e-13
"""Smallest error of an approximated kernel that exceeds rounding errors, as a share of the variance
of the kernel."""
ROOT_MATRICES = 5
"""Number of r x r matrices, for r basis functions, in memory while a posterior is computed."""
FEATURE_SCORING = 3
"""Number of matrices in memory while a score is computed, each with a row per point and a column
per basis function."""


@dataclass(frozen=True)
class Features:
    """Inference with constant cost per round: few features of the kernel, with rank-one updates.

    On a grid, features are exact up to rounding. On a box, a coarser tolerance requires fewer
    features. For lengthscale 0.2 on the unit square, the default tolerance requires 195 features,
    and a tolerance of 1e-2 requires 108.

    Args:
        tolerance: Largest allowed error of a posterior mean or standard deviation on a box,
            relative to the largest prior standard deviation, in (0, 1). The tolerance is met for
            observations whose size is likely under the prior. If observations are far larger than
            the prior makes likely, the error of the mean grows in proportion to the observations.

    Raises:
        ValueError: If ``tolerance`` is not between 0 and 1.
    """

    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        settle_number(self, "tolerance", "(0, 1)", "it must be between 0 and 1; use 1e-6.")


def refusal(process: Process, dtype: torch.dtype, context: int) -> str | None:
    """The reason why rank-one steps in few features cannot represent a process; None if they can.

    Args:
        process: The process.
        dtype: The dtype of the computation.
        context: Number of context coordinates.
    """
    if dtype != torch.float64:
        return f"{dtype} is too coarse for features; use float64."
    if context:
        return "the context has no bounds; if yours is bounded, make it coordinates of the box."
    if not Recursion.serves(process):
        return (
            "noise that ages, a decay that is not Markovian, rows dropped by time, and rows "
            "dropped from a window over a moving objective change more than one row in a round."
        )
    return None


def in_features(
    process: Process, box_prior: BoxPrior, corners: Tensor, *, tolerance: float, most: int
) -> PointBasis | str:
    """Represent a prior on a box by the fewest basis functions that meet a tolerance.

    Args:
        process: The process.
        box_prior: The prior with the kernel of the process on the box.
        corners: Corners of the box, `2 x d`.
        tolerance: Largest allowed error of means and standard deviations, see :class:`Features`.
        most: Largest number of functions.

    Returns:
        The basis, or a text with the reason why ``most`` basis functions do not suffice.
    """
    noise_ratio = process.noise / float(box_prior.variance)
    share = tolerance * KERNEL_SHARE * math.sqrt(min(1.0, noise_ratio))
    if share < LEAST_SHARE:
        return (
            f"an error of {tolerance:g} prior standard deviations requires a kernel accurate to "
            f"{share:.1g}, because the noise is so small; increase Features(tolerance=...)."
        )
    least = process.noise * NOISE_SHARE
    basis = point_basis(box_prior, corners, tolerance=share, least_noise=least, most=most)
    if isinstance(basis, PointBasis):
        return basis
    return (
        f"an error of {tolerance:g} prior standard deviations requires more than {basis} "
        "basis functions; increase Features(tolerance=...)."
    )


class PointRecursion(Recursion, PointInference):
    """Inference by a rank-one step per round, with a :class:`PointBasis` as prior."""

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        basis = point_basis_of(after)
        if after.least_noise < basis.least_noise:
            # The noise of the observation is too small for this basis, so regression takes over.
            return after._replace(prior=basis.box_prior, running=GrowingFactor())
        return super().observe(before, after, change, consume=consume)

    def predict(
        self, data: Data, present: Present, normal: Normal | None = None, most: int = 0
    ) -> GaussianPosterior:
        running, basis, trials = running_of(data), point_basis_of(data), data.time.numel()
        mean, square, prior, _, offset = self._moved_to(data, present.now)
        lost = running.matrix(basis)
        if square is not None:
            lost = lost.mul_(square[..., None, None])
        root = basis.root(lost, prior).view(trials, basis.size, basis.size)
        path = None
        if normal is not None:
            function = root @ normal(basis.size).reshape(trials, basis.size, 1)
            path = (-(basis.inverse.mT @ function).squeeze(-1),)
        rows = (basis.inverse.mT @ root).mT
        log = data.history.choice.tensor(data.dropped)
        return GaussianPosterior(
            kernel=basis.points,
            X=log.reshape(trials, *log.shape[-2:]),
            live=data.good.reshape(trials, -1),
            weights=mean.reshape(trials, basis.size) @ basis.inverse,
            factor=Factor(rows[:, :0, :0], rows, rows.diagonal(dim1=-2, dim2=-1)),
            offset=None if offset is None else offset.reshape(trials),
            information_gain=running.information_gain.reshape(trials),
            nodes=basis.X.expand(trials, -1, -1),
            largest=basis.scale**2,
            path=path,
        )

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis = point_basis_of(data)
        # The root stays in memory during the search of the box.
        at_work = max(ROOT_MATRICES * basis.size**2, 2 * basis.size**2 + search)
        return log_numbers(horizon) + self._numbers(basis, horizon) + at_work

    def search_sizes(self, data: Data, horizon: int) -> SearchSizes:
        starts = min(STARTING_POINTS, self.process.most_retained(horizon))
        return SearchSizes(starts, point_basis_of(data).size, FEATURE_SCORING)

    def _form(self, basis: Basis) -> type[Filter]:
        return Filter

    def _located(self, basis: Basis, choice: Tensor) -> Tensor:
        assert isinstance(basis, PointBasis)
        return basis.at(choice)


def point_basis_of(data: Data) -> PointBasis:
    """The basis of a posterior on a box."""
    assert isinstance(data.prior, PointBasis)
    return data.prior
