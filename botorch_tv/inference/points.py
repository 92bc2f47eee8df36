"""The posterior on a box.

Trials are flattened to one dimension here, whatever their batch shape.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Size, Tensor

from botorch_tv.inference.arms import log_numbers
from botorch_tv.inference.box_prior import BoxPrior
from botorch_tv.inference.costs import (
    DECAY_MATRICES,
    FACTOR_BLOCK,
    FAMILIAR,
    FEWEST_REMAINING,
    POSTERIOR_MATRICES,
    WAVES,
)
from botorch_tv.inference.data import Data, Present, Prior
from botorch_tv.inference.fourier import FREQUENCIES, spectral_normals, waves
from botorch_tv.inference.growing_factor import (
    Factor,
    GrowingFactor,
    Log,
    factor_of,
    numbers_of_factor,
)
from botorch_tv.inference.point_kernel import PointKernel, Stationary
from botorch_tv.inference.point_posterior import (
    GaussianPosterior,
    PathDraw,
    RegressionPosterior,
    gram_of,
    point_posterior,
)
from botorch_tv.inference.process import observations_of, temporal_rows
from botorch_tv.inference.protocol import Inference, Joint, Looks, Normal
from botorch_tv.inference.regression import Observations
from botorch_tv.inference.remaining_factor import RemainingFactor


class PointInference(Inference):
    """An inference at any points of a box."""

    @abstractmethod
    def predict(
        self,
        data: Data,
        present: Present,
        normal: Normal | None = None,
        most: int = 0,
    ) -> GaussianPosterior:
        """The posterior at present, of flattened trials.

        Args:
            data: The observations.
            present: When.
            normal: Random numbers for a function drawn from it; None for none.
            most: Rows that a trial could have if it kept all of them.
        """

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        with torch.no_grad():
            posterior = self.predict(data, present)
        shape, q = data.time.shape, choice.shape[-2]
        mean, covariance = posterior.joint(choice.reshape(data.time.numel(), *choice.shape[-3:]))
        offset = self.prior_mean(posterior.offset)
        if isinstance(offset, Tensor):
            offset = offset[:, None, None]
        return Joint(
            (mean + offset).view(*shape, choice.shape[-3], q),
            covariance.view(*shape, choice.shape[-3], q, q),
            posterior.information_gain.view(shape),
        )


class PointRegression(PointInference):
    """Regression at any points of a box: any process.

    A round on n observations costs O(n²) as long as the log only grows, whatever the decay, for
    its factor grows along; see :class:`GrowingFactor`. What changes old rows is paid by factoring
    anew, from the first row that changed on: O(n³) in every round where noise ages, since that of
    each row grows, and where rows leave by relevance, or out of a window of time that trials share,
    n being what is left; and once when a trigger resets or hyperparameters are learned. Out of a
    window of at least 768 rounds rows leave 64 at a time, see :class:`RemainingFactor`, which is
    paid once in so many rounds. A function drawn while the objective moves takes a root of its own,
    O(n³) too.
    """

    def start(self, prior: Prior, batch_shape: Size) -> GrowingFactor | None:
        if self.samples and isinstance(prior, BoxPrior):
            spectral_normals(prior.points)  # raises where none are known
        return None if self.process.ages else GrowingFactor()

    def predict(
        self,
        data: Data,
        present: Present,
        normal: Normal | None = None,
        most: int = 0,
    ) -> RegressionPosterior:
        kernel, moves = _box_prior(data).points, self.process.moves
        pairs = normal is not None and moves
        observations = self._flat_observations(data, present, pairs=pairs)
        draw = None
        if normal is not None:
            draw = _path_draw(kernel, observations, normal, most)
        factor = self._factor(data, present, observations)
        return point_posterior(kernel, observations, draw, factor)

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        observations = self._flat_observations(data, present, inflation_power=2)
        return self._factor(data, present, observations).log_diagonal.view_as(present.now)

    def _factor(
        self, data: Data, present: Present, observations: Observations
    ) -> Factor | RemainingFactor:
        """The factor of the observations; most of it is reused if the log has only grown."""
        leaving = _still_there(data, observations)
        if not leaving:
            return self._grown(data, observations)
        wider = data._replace(dropped=data.dropped - leaving)
        whole = self._grown(wider, self._flat_observations(wider, present))
        return RemainingFactor.of(whole, leaving)

    def _grown(self, data: Data, observations: Observations) -> Factor:
        """The factor of the observations, extended from the rows already factored."""
        prior, X, root = _box_prior(data), observations.choice, observations.precision_root
        decay = self.process.decay if prior.decay is None else prior.decay
        elapsed = data.elapsed if self.process.moves else None

        def time(first: int, last: int) -> Tensor:
            assert elapsed is not None
            rows = temporal_rows(decay, elapsed, first, last).to(root)
            return rows.reshape(-1, *rows.shape[-2:])

        gram = gram_of(prior.points, X, root, None if elapsed is None else time)
        if not isinstance(data.running, GrowingFactor):
            return factor_of(gram, root)
        times = None if elapsed is None else elapsed.reshape(root.shape)
        return data.running.factor(Log(prior, X, root, times), gram)

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        kept, moves = self.process.most_kept(horizon), self.process.moves
        matrices = POSTERIOR_MATRICES + (DECAY_MATRICES if moves else 0)
        block = matrices * kept * min(kept, FACTOR_BLOCK)
        if self.samples and moves:
            block += matrices * kept**2
        if self.process.slides and kept >= FEWEST_REMAINING:
            kept += FACTOR_BLOCK  # that have left, but not the factor yet
        # The last rows of the factor stay while the box is searched.
        at_work = max(block, kept * min(kept, FACTOR_BLOCK) + search)
        return log_numbers(horizon) + numbers_of_factor(kept) + at_work

    def looks(self, data: Data, horizon: int) -> Looks:
        kept = self.process.most_kept(horizon)
        besides = WAVES * FREQUENCIES if self.samples else 0
        return Looks(min(FAMILIAR, kept), kept, besides=besides)

    def believed_noise(self, data: Data, noise: Tensor) -> Tensor:
        factor = _box_prior(data).noise_factor
        return noise if factor is None else noise * factor.view_as(noise)

    def observations(
        self,
        data: Data,
        present: Present,
        inflation_power: int = 1,
        pairs: bool = True,
    ) -> Observations:
        box_prior = _box_prior(data)
        factor = box_prior.noise_factor
        return observations_of(
            data,
            self.process,
            present,
            inflation_power=inflation_power,
            decay=box_prior.decay,
            noise_factor=None if factor is None else factor.view_as(present.now),
            pairs=pairs,
        )

    def _flat_observations(
        self,
        data: Data,
        present: Present,
        inflation_power: int = 1,
        pairs: bool = False,
    ) -> Observations:
        observations = self.observations(data, present, inflation_power, pairs)
        trials, dims = data.time.numel(), data.time.dim()
        return observations.each(lambda part: part.reshape(trials, *part.shape[dims:]))


def _path_draw(
    kernel: PointKernel, observations: Observations, normal: Normal, most: int
) -> PathDraw:
    """Random numbers for a function per trial.

    How many are drawn depends on the rounds told alone, not on what other trials still keep, so
    that a trial draws the same in any batch.
    """
    trials, n, columns = observations.choice.shape
    if isinstance(kernel, Stationary) and kernel.columns is not None:
        columns = len(kernel.columns)

    def flat(*shape: int) -> Tensor:
        return normal(*shape).reshape(trials, *shape)

    features = waves(kernel, flat(FREQUENCIES, columns + spectral_normals(kernel)))
    return PathDraw(features, flat(2 * FREQUENCIES), flat(most)[:, most - n :])


def _still_there(data: Data, observations: Observations) -> int:
    """Rows before those in use that a growing factor had better keep until a block of them is left.

    In single precision, where rows that are corrected for would cost digits, none; nor where there
    are few in use, or where those in use are not the same in all trials.
    """
    root = observations.precision_root
    grows = isinstance(data.running, GrowingFactor) and data.keeps_all
    if not grows or root.dtype != torch.float64 or root.shape[-1] < FEWEST_REMAINING:
        return 0
    return data.dropped % FACTOR_BLOCK


def _box_prior(data: Data) -> BoxPrior:
    assert isinstance(data.prior, BoxPrior)
    return data.prior
