"""Posteriors on all arms of a grid, and the rank-one recursion for any domain."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior, SlidingArms
from botorch_tv.gp.basis import Basis, FeatureBasis
from botorch_tv.gp.data import Change, Data, Present, Prior
from botorch_tv.gp.feature_filter import Filter, RootFilter
from botorch_tv.gp.linalg import scaled
from botorch_tv.gp.process import Inference, Joint, Process, basis_of
from botorch_tv.gp.regression import (
    information_gain,
    numbers_of_block,
    numbers_of_regression,
    regress,
    regress_on_arms,
)
from botorch_tv.gp.tensors import room_for

SMALL_RANK = 64
"""Largest number of features for which a step in features is cheaper than a step on the played
arms."""
LEAST_NOISE = 1 / 64
"""Smallest noise variance, as a share of the largest prior variance k, for which two computations
are used: the removal of an observation from a window, and the inverse over the played arms. Both
amplify rounding errors by (k / noise)². For smaller noise, a window is recomputed in every round,
and a filter replaces the inverse. The measured errors are at most 500 eps (k / noise)² for windows
and 1,800 eps (k / noise)² for the inverse."""
FINEST_SHARE = 128
"""Smallest posterior variance that a recursion may reach, as a multiple of the rounding error of
the largest prior variance. On a static objective, n observations of noise variance σ² reduce the
posterior variance to σ² / n."""
REFRESH_ROUNDS = 16
"""Largest number of rounds between two recomputations of the posterior of a window. A recomputation
removes accumulated rounding errors."""
JOINTLY = 512
"""Number of arms in one block of joint covariances."""
AT_ONCE = 8
"""Number of vectors in memory during a round, each with one entry per arm."""
DECAYS_AT_ONCE = 4
"""Number of n x n matrices, for n observations, in memory while temporal factors are computed."""


class ArmPosterior(NamedTuple):
    """The posterior of f_now on all arms; valid until the next posterior is computed.

    Attributes:
        mean: Posterior mean minus the prior mean, `batch_shape x M`.
        sd: Standard deviation, `batch_shape x M`.
        information_gain: ½ ln det(I + N^(-½) K N^(-½)) of the observations in use, with prior
            covariance K and noise covariance N, `batch_shape`.
        offset: The given or estimated prior mean, a number or `batch_shape`.
        draw: Maps standard normal variates, `batch_shape x p`, to a sample with mean 0 and the
            posterior covariance, `batch_shape x M`.
    """

    mean: Tensor
    sd: Tensor
    information_gain: Tensor
    offset: Tensor | float
    draw: Callable[[Tensor], Tensor]


class ArmInference(Inference):
    """Inference over finitely many arms."""

    @abstractmethod
    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        """The posterior on all arms at the time of a decision.

        Args:
            data: The observations.
            present: The time of the decision.
            normal: The variates that will be passed to ``draw``, if available, `batch_shape x p`.
        """

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return information_gain(basis_of(data), self.observations(data, present, inflation_power=2))

    def tight_variance(self, data: Data, present: Present) -> Tensor:
        """σ̃² of :attr:`Candidates.tight_sd`, var(x) - Σ_s (1/n_s) (1 - λ/n_s) cov(x, x_s)².

        Here n_s is the noise variance of observation s at its age, λ is its noise variance at age
        0, and cov is the posterior covariance.

        Args:
            data: The observations.
            present: The time of the decision.

        Returns:
            Variances of all arms, `batch_shape x M`.
        """
        arms = torch.arange(basis_of(data).arms, device=data.time.device)
        covariance = self.joint(data, arms.expand(*data.time.shape, 1, -1), present)[1].squeeze(-3)
        variance = covariance.diagonal(dim1=-2, dim2=-1)
        if not self.process.ages:
            return variance
        seen, time = self.observations(data, present), data.history.time.tensor(data.dropped)
        growth = self.process.inflation.log_factor(present.reference.unsqueeze(-1) - time)
        excess = seen.precision_root.square() * -torch.expm1(-growth).to(seen.y)
        by_arm = torch.zeros_like(variance).scatter_add(-1, seen.choice, excess)
        return variance - (covariance.square() @ by_arm.unsqueeze(-1)).squeeze(-1)


def joint_in_groups(
    choice: Tensor, gain: Tensor, at: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> Joint:
    """The joint posterior within each group of arms, computed in blocks.

    Args:
        choice: Arms of e groups, `batch_shape x e x q`.
        gain: The information gain, `batch_shape`.
        at: Maps arms, `batch_shape x n`, to their mean and covariance.
    """
    q, means, blocks = choice.shape[-1], [], []
    for part in torch.split(choice, max(1, JOINTLY // q), dim=-2):
        mean, covariance = at(part.flatten(-2))
        means.append(mean.view(part.shape))
        square = covariance.reshape(*part.shape, *part.shape[-2:])
        # Dimensions are now group, member, group, member; select the covariances within each group.
        blocks.append(square.diagonal(dim1=-4, dim2=-2).movedim(-1, -3))
    return torch.cat(means, -2), torch.cat(blocks, -3), gain


class ArmRegression(ArmInference):
    """Inference by a regression on all retained observations in every round, for any process."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        basis, observations = basis_of(data), self.observations(data, present)
        mean, lost, gain, offset, sample = regress_on_arms(basis, observations, normal)
        prior = scaled(basis.variance, observations.prior_factor)

        def draw(wanted: Tensor) -> Tensor:
            drawn = sample
            if wanted is not normal:
                *_, drawn = regress_on_arms(basis, observations, wanted)
            assert drawn is not None
            return drawn

        sd = (prior - lost).clamp_min_(0).sqrt_()
        return ArmPosterior(mean, sd, gain, self.prior_mean(offset), draw)

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        basis, observations = basis_of(data), self.observations(data, present)
        posterior = regress(basis, observations)
        offset = self.prior_mean(None if posterior.trend is None else posterior.trend.constant)

        def at(index: Tensor) -> tuple[Tensor, Tensor]:
            prior = scaled(basis.gram(index), observations.prior_factor)
            mean = basis.inner(posterior.coordinates.unsqueeze(-2), index).squeeze(-1)
            return mean + per_trial(offset), prior - posterior.covariance_reduction(basis, index)

        return joint_in_groups(choice, posterior.information_gain, at)

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis, moves = basis_of(data), self.process.moves
        retained = self.process.most_retained(horizon)
        block = numbers_of_block(basis, retained, trials, moves)
        at_work = -(-block // trials)
        if moves:  # the temporal factors of all trials stay in memory
            at_work = max(DECAYS_AT_ONCE * retained**2, retained**2 + at_work)
        return AT_ONCE * basis.arms + log_numbers(horizon) + at_work


def log_numbers(horizon: int) -> int:
    """Number of values per trial in a log: choice, observation, noise and time of every round."""
    return 4 * room_for(horizon) + 4 * horizon


def per_trial(offset: Tensor | float) -> Tensor | float:
    """A prior mean per trial, broadcastable with `batch_shape x q`."""
    return offset.unsqueeze(-1) if isinstance(offset, Tensor) else offset


class Recursion(Inference):
    """Inference by a rank-one step per round; the cost does not depend on the number of rounds."""

    @staticmethod
    def serves(process: Process) -> bool:
        """Whether one rank-one step per round gives the exact posterior of a process.

        If noise grows with age, all noise variances change in every round. Only for a Markov
        process does the newest posterior contain all information about the past. The posterior must
        be recomputed by a regression in two cases: if a rule drops rows by time, and if a window
        slides while the prior changes with time.
        """
        slides_while_moving = process.slides and process.moves
        enough = not (process.expires or slides_while_moving)
        return not process.ages and process.decay.markovian and enough

    def start(self, prior: Prior, batch_shape: Size) -> RunningPosterior:
        assert isinstance(prior, Basis)
        return self._prior(prior, batch_shape)

    def observe(self, before: Data, after: Data, change: Change, *, consume: bool) -> Data:
        leaving, cleared, running = change.leaving, change.cleared, before.running
        process, basis = self.process, basis_of(after)
        rough = amplifies(after.least_noise, basis)
        anew = rough or process.moves or after.rounds % REFRESH_ROUNDS == 0
        # A filter replaces the inverse as soon as the noise of an observation is too small.
        replaced = isinstance(running, PlayedArms) and after.least_noise < before.least_noise
        empty = after.dropped == after.rounds
        if empty or change.others or (leaving and anew) or (rough and replaced):
            return self._anew(after)
        assert isinstance(running, RunningPosterior)
        if not consume:
            running = running.copied()
        prior = None
        if process.moves:
            *motion, prior = self._motion(before, before.time, after, after.time)
            running.move(basis, *motion)
        if cleared is not None:
            running.clear(self._variance(basis), cleared)
        mean, history = process.given_mean, after.history
        for number in (after.rounds - 1, *leaving):
            removed = number < after.rounds - 1
            y, noise = history.y.row(number), history.noise.row(number)
            if removed and before.mask is not None:
                noise = noise.masked_fill(~before.mask[..., number - before.dropped], math.inf)
            if removed and cleared is not None:
                noise = noise.masked_fill(cleared, math.inf)
            index = self._located(basis, history.choice.row(number))
            running.observe(basis, index, y - mean if mean else y, noise, prior, remove=removed)
            if isinstance(running, PlayedArms) and not removed:
                running.reserve(basis.size)
                if running.used > basis.size:
                    running = Filter.of_arms(basis, running)
        if leaving and after.empty is not None:
            # Without data, the sums of a window contain only rounding errors, and the ratios of
            # these sums are arbitrary.
            running.clear(basis.variance, after.empty)
        return after._replace(running=running)

    def keep(self, before: Data, after: Data, change: Change) -> Data:
        changes = change.leaving or change.others or change.cleared is not None
        return self._anew(after) if changes else after

    def doubly_weighted_gain(self, data: Data, present: Present) -> Tensor:
        return running_of(data).information_gain

    def _numbers(self, basis: Basis, horizon: int) -> int:
        """Number of values per trial in memory for the posterior of ``horizon`` rounds."""
        form, process, rows = self._form(basis), self.process, self.process.most_retained(horizon)
        regression = numbers_of_regression(basis, rows, process.moves)
        in_arms = issubclass(form, PlayedArms)
        if process.slides:  # until a recomputation, a removal frees no slot and adds a row
            rows = min(horizon, rows + REFRESH_ROUNDS * (1 if in_arms else 2))
        numbers = form.numbers(basis, rows)
        if in_arms and rows > basis.size:
            numbers += 2 * basis.size**2  # a filter replaces the played arms
        recomputes = process.returns or (process.slides and horizon >= REFRESH_ROUNDS)
        return max(numbers, form.numbers(basis, 0) + regression) if recomputes else numbers

    @abstractmethod
    def _form(self, basis: Basis) -> type[RunningPosterior]:
        """The class that represents the posteriors of all trials."""

    def _located(self, basis: Basis, choice: Tensor) -> Tensor:
        """Choices in the form that the methods of the basis expect."""
        return choice

    def _anew(self, data: Data) -> Data:
        """Recompute the posterior from the retained rows, at the time of the newest observation."""
        basis = basis_of(data)
        if data.dropped == data.rounds:
            # If rows were dropped without a reset, the time since the origin continues to grow.
            elapsed = _elapsed(data, data.time)
            return data._replace(running=self._prior(basis, data.time.shape, elapsed))
        observations = self.observations(data, Present(data.time, data.time))
        observations = observations._replace(choice=self._located(basis, observations.choice))
        form, exact = self._form(basis), not amplifies(data.least_noise, basis)
        if issubclass(form, PlayedArms) and exact and observations.y.shape[-1] <= basis.size:
            return data._replace(running=form.of_observations(basis, observations))
        running = Filter.of_observations(basis, observations)
        if form is RootFilter and exact:
            # The root is computed once here; otherwise every sample would compute it again.
            return data._replace(running=running.as_root(basis))
        return data._replace(running=running)

    def _prior(self, basis: Basis, shape: Size, elapsed: Tensor | None = None) -> RunningPosterior:
        trend, variance = self.process.given_mean is None, self._variance(basis, elapsed)
        return self._form(basis)(basis, shape, variance, trend=trend)

    def _variance(self, basis: Basis, elapsed: Tensor | None = None) -> Tensor:
        """Prior variance, `M` or `batch_shape x M`, at ``elapsed`` (None: 0) after the origin."""
        if not self.process.moves:
            return basis.variance
        if elapsed is None:
            elapsed = basis.variance.new_zeros((), dtype=torch.float64)
        factor = self.process.decay.prior_variance(elapsed).to(basis.variance)
        return factor.unsqueeze(-1) * basis.variance

    def _moved_to(
        self, data: Data, now: Tensor
    ) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
        """The posterior at time ``now``; valid until the next call.

        Returns:
            Five values; 2 to 4 are `batch_shape`, and None for a static objective.
            1. The mean minus the estimated constant, `batch_shape x M`.
            2. The factor on D, where D is the prior minus the posterior covariance.
            3. The factor on the prior covariance.
            4. The prior variance that is new since the last observation, as a share of the
               kernel's variance.
            5. The estimated constant, `batch_shape`; None if the prior mean is given.
        """
        running = running_of(data)
        mean, trend = running.mean, running.trend
        square = prior = grown = estimate = None
        if trend is not None:
            # The mean and the response of the trend decay by the same factor, so the response may
            # be subtracted before the decay.
            estimate = trend.constant
            mean = mean - estimate.unsqueeze(-1) * trend.response
        if self.process.moves:
            attenuation, square, grown, prior = self._motion(data, data.time, data, now)
            out = data.prior.scratch.take("mean", mean.shape, mean)
            mean = torch.mul(mean, attenuation.unsqueeze(-1), out=out)
        return mean, square, prior, grown, estimate

    def _motion(
        self, early: Data, then: Tensor, late: Data, now: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The change of the prior from ``then`` to ``now``, each result `batch_shape`.

        Returns:
            Four values: the factor a on covariances; a²; (v - a² u) / k(x, x), where u is the prior
            variance at ``then`` and v at ``now``; and v / k(x, x), or None, which means 1.
        """
        decay, dtype = self.process.decay, basis_of(early).variance.dtype
        if decay.stationary:  # before the first observation there is nothing to attenuate
            attenuation = decay.attenuation((now - then).clamp_min(0)).to(dtype)
            square = attenuation.square()
            return attenuation, square, 1 - square, None
        start, end = _elapsed(early, then), _elapsed(early, now)
        attenuation = decay.transition(start, end).to(dtype)
        square, before = attenuation.square(), decay.prior_variance(start).to(dtype)
        if late.origin is not early.origin:
            end = _elapsed(late, now)
        prior = decay.prior_variance(end).to(dtype)
        return attenuation, square, prior - square * before, prior


class ArmRecursion(Recursion, ArmInference):
    """Inference by one rank-one step per round on all arms."""

    def predict(self, data: Data, present: Present, normal: Tensor | None = None) -> ArmPosterior:
        running, basis = running_of(data), basis_of(data)
        mean, square, prior, grown, estimate = self._moved_to(data, present.now)
        sd = basis.scratch.take("sd", mean.shape, mean)
        if square is None or grown is None:
            torch.clamp(running.variance, min=0, out=sd)
        else:
            torch.mul(running.variance, square.unsqueeze(-1), out=sd)
            sd.addcmul_(grown.unsqueeze(-1), basis.variance).clamp_min_(0)

        def draw(normal: Tensor) -> Tensor:
            return basis.expand(running.draw(basis, square, prior, normal))

        offset = self.prior_mean(estimate)
        return ArmPosterior(mean, sd.sqrt_(), running.information_gain, offset, draw)

    def joint(self, data: Data, choice: Tensor, present: Present) -> Joint:
        basis, running = basis_of(data), running_of(data)

        mean, square, prior, _, estimate = self._moved_to(data, present.now)
        mean = mean + per_trial(self.prior_mean(estimate))

        def at(index: Tensor) -> tuple[Tensor, Tensor]:
            lost = scaled(basis.inner(running.at(basis, index), index), square)
            return mean.gather(-1, index), scaled(basis.gram(index), prior) - lost

        return joint_in_groups(choice, running.information_gain, at)

    def numbers_per_trial(self, data: Data, horizon: int, trials: int, search: int) -> int:
        basis = basis_of(data)
        return AT_ONCE * basis.arms + log_numbers(horizon) + self._numbers(basis, horizon)

    def _form(self, basis: Basis) -> type[RunningPosterior]:
        process = self.process
        static = not (process.moves or process.slides or process.returns)
        small = isinstance(basis, FeatureBasis) and basis.size <= SMALL_RANK
        if small or self.samples:
            return RootFilter if static else Filter
        # The inverse amplifies rounding too much in two cases: in single precision, and for a prior
        # that grows without bound, because the noise becomes small relative to the prior.
        grows = process.moves and not process.decay.stationary
        if grows or amplifies(process.noise, basis):
            return Filter
        clears = all(rule.resets_beyond_band for rule in process.retention)
        return PlayedArms if clears else SlidingArms


def amplifies(least_noise: float, basis: Basis) -> bool:
    """Whether rank-one steps are too imprecise; their rounding errors grow as 1 / noise²."""
    if basis.variance.dtype != torch.float64:
        return True
    return least_noise < LEAST_NOISE * basis.scale**2


def precise_rounds(inference: Inference, prior: Prior) -> float:
    """Largest number of observations for which rounding errors are far below posterior variances.

    The result is infinite in two cases: for a regression, because it recomputes the posterior in
    every round; and for a prior that changes with time, because old rounding errors decay.
    """
    if not isinstance(inference, Recursion) or inference.process.moves:
        return math.inf
    rounding = torch.finfo(prior.variance.dtype).eps * prior.scale**2
    return inference.process.noise / (FINEST_SHARE * rounding)


def _elapsed(data: Data, time: Tensor) -> Tensor:
    """Time since the first observation after the last reset, `batch_shape`; 0 until then."""
    return (time - data.origin).clamp_min(0)


def running_of(data: Data) -> RunningPosterior:
    """The running posterior given some data."""
    assert isinstance(data.running, RunningPosterior)
    return data.running
