"""What is asked of an inference, whatever the domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from torch import Size, Tensor

from botorch_tv.inference.arm_engine import RunningPosterior
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.cholesky import GrowingFactor
from botorch_tv.inference.costs import SCORING
from botorch_tv.inference.data import Change, Data, Present, Prior
from botorch_tv.inference.mixture.filter import RunningMixture
from botorch_tv.inference.process import Process, observations_of
from botorch_tv.inference.regression import Observations

Normal = Callable[..., Tensor]
"""Standard normal variates for the trials: ``normal(k)`` gives `batch_shape x k`."""


class Joint(NamedTuple):
    """The joint posterior of f_now within each of e groups of q arms or points."""

    mean: Tensor
    """`batch_shape x e x q`."""
    covariance: Tensor
    """`batch_shape x e x q x q`."""
    information_gain: Tensor
    """½ ln det(I + N^(-½) K N^(-½)) of the data in use, `batch_shape`."""


class Looks(NamedTuple):
    """Sizes of a search of a box, for estimates of memory."""

    familiar: int
    """Observations that it begins at."""
    compared: int
    """Observations, or functions, that a point is compared with."""
    matrices: int = SCORING
    """Matrices of points against these that a score is computed in."""
    besides: int = 0
    """Numbers that the score of a point takes besides."""


class Inference(ABC):
    """How the posterior of a process is computed from its data.

    Unless it says otherwise it holds nothing besides the log and computes anew at every round.
    What is predicted has the shape of the domain: :meth:`ArmInference.predict` knows all arms at
    once, :meth:`PointRegression.predict` any point that it is asked about.

    Args:
        process: The kernel, its noise and mean, and how measurements are forgotten.
        samples: Whether functions will be drawn in every round; a choice of representation, never
            of the result.
    """

    def __init__(self, process: Process, *, samples: bool = False) -> None:
        self.process, self.samples = process, samples

    def start(
        self, prior: Prior, batch_shape: Size
    ) -> RunningPosterior | RunningMixture | GrowingFactor | None:
        """What data hold in addition to the log, before any observation."""
        return None

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        """Take in the newest row of a log.

        Args:
            before: The data of the round.
            after: Those of the next, their posterior still that of ``before``.
            change: Which rows they do not keep any more.
            consume: Whether the memory of ``before`` may be reused.

        Returns:
            ``after``, its posterior brought up to date.
        """
        return after

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        """Leave out rows as time passes, without an observation; see :meth:`observe`.

        What has changed may lie in memory that is for reading only.
        """
        return after

    @abstractmethod
    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        """The joint posterior within each of e groups of q arms or points; differentiable in these.

        Args:
            data: The observations.
            choice: Arms, `batch_shape x e x q`, or points, `batch_shape x e x q x (d + c)`.
            present: When.
        """

    @abstractmethod
    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        """The information gain with the factor on the noise squared, `batch_shape`."""

    @abstractmethod
    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        """Numbers held and worked on by round ``horizon`` per trial, where ``trials`` do together.

        The most there can be: every round tells of another arm. ``search`` numbers are worked on
        while the posterior is held and a box is searched.
        """

    def looks(self, data: Data, horizon: int) -> Looks:
        """The most that a search of a box takes up to round ``horizon``."""
        kept = self.process.most_kept(horizon)
        return Looks(kept, kept)

    def believed_noise(self, data: Data, noise: Tensor) -> Tensor:
        """The noise variances used for those that were told, `batch_shape`."""
        return noise

    def unit(self, data: Data) -> Tensor | None:
        """By what predictions are to be multiplied, `batch_shape`; None for 1.

        :meth:`joint` is in the units of y in any case.
        """
        return None

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        """The prior mean: what is known, or else the estimate, `batch_shape`."""
        known = self.process.known_mean
        if known is not None:
            return known
        assert estimate is not None
        return estimate

    def observations(self, data: Data, present: Present, inflation_power: int = 1) -> Observations:
        """The observations kept, ready for regression."""
        return observations_of(data, self.process, present, inflation_power=inflation_power)


def basis_of(data: Data) -> Basis:
    """Coordinates of the kernel."""
    assert isinstance(data.prior, Basis)
    return data.prior
