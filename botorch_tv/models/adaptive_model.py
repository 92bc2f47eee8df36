"""A BoTorch model without prior knowledge: a bank of processes, weighted by their predictions."""

from __future__ import annotations

from typing import NoReturn, Self

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.sampling.base import MCSampler
from torch import Size, Tensor

from botorch_tv.inference.mixture.bank import BankPrior
from botorch_tv.inference.mixture.filter import RunningMixture, member_weights
from botorch_tv.inference.mixture.forecast import forecast, places
from botorch_tv.models.adaptive_posterior import AdaptivePosterior
from botorch_tv.models.checks import check_batches, check_inputs
from botorch_tv.models.measurements import (
    BEYOND,
    check_measurements,
    check_points,
    check_room,
    in_order,
    learned,
    split,
)
from botorch_tv.validation import require


class AdaptiveModel(Model):  # type: ignore[misc]
    """The posterior of a bank of processes at the times in ``X``; see :func:`adaptive_model`.

    It needs no fitting: members are weighted and conditioned in one pass over the data, and each
    further observation costs the same as one of these.

    Attributes:
        train_inputs: Training inputs in order of time, `(batch_shape x n x d,)`.
        train_targets: Training targets, `batch_shape x n`.
        time_dim: Index of the time column.
    """

    def __init__(
        self,
        prior: BankPrior,
        running: RunningMixture,
        train_X: Tensor,
        train_Y: Tensor,
        time_dim: int,
        now: Tensor | None,
    ) -> None:
        super().__init__()
        self.prior, self.running = prior, running
        self.train_inputs, self.train_targets = (train_X,), train_Y.squeeze(-1)
        self.time_dim, self._now = time_dim, now
        self._drawing = forecast(prior, running)

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    @property
    def likelihood(self) -> NoReturn:
        """None: ``ModelListGP``, and whatever else takes Gaussian processes alone, asks for it.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            "an adaptive_model has no likelihood, as its posterior is a mixture of processes and "
            "no Gaussian one; for several outcomes use botorch.models.model.ModelList, not "
            "ModelListGP, and for noisy observations posterior(X, observation_noise=True)."
        )

    @property
    def batch_shape(self) -> Size:
        """The batch shape of the data."""
        return self.train_targets.shape[:-1]

    @property
    def newest(self) -> Tensor:
        """Time of the newest observation, `batch_shape`."""
        return self.running.time.view(self.batch_shape)

    @property
    def now(self) -> Tensor:
        """Present time, `batch_shape`: as given, or that of the newest observation."""
        return self.newest if self._now is None else self._now

    @property
    def weights(self) -> Tensor:
        """Weights of members, `batch_shape x lengthscales x rates x hazards x noise ratios`."""
        bank = self.prior.bank
        share = member_weights(self.running.groups, self.prior.members)
        sizes = (len(bank.rates), len(bank.hazards), len(bank.noise_ratios))
        return share.view(*self.batch_shape, share.shape[-2], *sizes)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> AdaptivePosterior:
        """The mixture at the points and times in ``X``.

        Points may lie up to a quarter of a side outside the bounds. Features of a kernel are a
        projection there, too: each process extrapolates, and less and less of it is known.

        Args:
            X: `... x batch_shape x q x d`, no earlier than the newest observation.
            output_indices: None or [0].
            observation_noise: Whether to add the noise of a new observation, each member's own; or
                its variance, `... x q x 1`.
            posterior_transform: A ``ScalarizedPosteriorTransform``.

        Raises:
            InputDataError: If a point lies before the newest observation or far out of bounds.
            UnsupportedError: For other transforms.
        """
        require(
            output_indices in (None, [0]),
            f"output_indices is {output_indices}, but there is one output; pass None.",
        )
        check_inputs(X, self.train_inputs[0].shape[-1])
        check_batches(X, self.batch_shape)
        shape = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        lead = shape[: len(shape) - len(self.batch_shape)]
        sets, trials, q = lead.numel(), self.batch_shape.numel(), X.shape[-2]
        flat = X.expand(*shape, *X.shape[-2:]).reshape(sets, trials, q, -1).transpose(0, 1)
        points, time = split(flat, self.time_dim)
        check_points(self.prior, points, time, self.running.time[:, None, None], BEYOND)
        added = None
        if isinstance(observation_noise, Tensor):
            wide = observation_noise.expand(*shape, q, 1)
            added = wide.reshape(sets, trials, q).transpose(0, 1)
        found = AdaptivePosterior(
            drawing=self._drawing,
            places=places(self.prior, self.running, points, time),
            own_noise=observation_noise is True,
            added=added,
            lead=lead,
            trials=self.batch_shape,
            centre=self.running.units.centre,
            unit=self.running.units.spread,
        )
        return found if posterior_transform is None else _transformed(found, posterior_transform)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """The model conditioned on q more observations, in the same units.

        Args:
            X: `batch_shape' x q x d`, no earlier than the previous observations.
            Y: `batch_shape' x q x 1`; leading dimensions beyond the model's make more trials.
            noise: Must be None, since the bank estimates the noise.

        Raises:
            InputDataError: If an observation lies before the newest, or shapes do not fit.
            UnsupportedError: If ``noise`` is given, or so many trials take too much memory.
        """
        if noise is not None:
            raise UnsupportedError(
                "condition_on_observations got noise, but a bank, which learns the scale of y, "
                "cannot weigh a variance in units of y exactly; leave it out, or use a "
                "TimeVaryingGP."
            )
        check_measurements(X, Y, self.time_dim)
        check_inputs(X, self.train_inputs[0].shape[-1])
        check_batches(X, self.batch_shape)
        shape = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        check_room(self.prior, shape)
        X, Y = in_order(
            X.expand(*shape, *X.shape[-2:]), Y.expand(*shape, *Y.shape[-2:]), self.time_dim
        )
        running = self.running.view(self.batch_shape).expanded(shape).flat()
        points, time = split(X, self.time_dim)
        check_points(self.prior, points, time, self.newest.unsqueeze(-1))
        running = learned(self.prior, running, points, time, Y)
        old, targets = self.train_inputs[0], self.train_targets.unsqueeze(-1)
        now = None if self._now is None else torch.maximum(self._now, time.amax(-1))
        return type(self)(
            self.prior,
            running,
            torch.cat([old.expand(*shape, *old.shape[-2:]), X], -2),
            torch.cat([targets.expand(*shape, *targets.shape[-2:]), Y], -2),
            self.time_dim,
            now,
        )

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None
    ) -> Self:
        """The model conditioned on observations drawn from it, with noise.

        Args:
            X: `... x batch_shape x q x d`, each set of q points at one time.
            sampler: Draws the fantasies, `sample_shape`.
            observation_noise: Must be None, since the bank estimates the noise.

        Returns:
            A model of `sample_shape x ... x batch_shape`, differentiable by ``X``.

        Raises:
            InputDataError: See :meth:`posterior`.
            UnsupportedError: If ``observation_noise`` is given, or so many fantasies take too much
                memory.
        """
        Y = sampler(self.posterior(X, observation_noise=True))
        return self.condition_on_observations(X, Y, noise=observation_noise)

    def subset_output(self, idcs: list[int]) -> Self:
        """The model of a subset of the outputs, of which there is only one.

        Args:
            idcs: [0].

        Raises:
            UnsupportedError: For others.
        """
        if list(idcs) not in ([0], [-1]):
            raise UnsupportedError(f"idcs is {idcs}, but the model has one output; give [0].")
        return self


def _transformed(found: AdaptivePosterior, transform: PosteriorTransform) -> AdaptivePosterior:
    if type(transform) is not ScalarizedPosteriorTransform:
        raise UnsupportedError(
            f"posterior_transform is {transform!r}, which needs a Gaussian, and a mixture is none; "
            "give an objective of samples, or ScalarizedPosteriorTransform."
        )
    require(
        len(transform.weights) == 1,
        f"posterior_transform has {len(transform.weights)} weights, but there is one output.",
    )
    return found.scaled(float(transform.weights[0]), float(transform.offset))
