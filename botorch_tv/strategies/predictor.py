"""What a strategy predicts, recommends and reports, given its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from botorch.posteriors import GPyTorchPosterior
from linear_operator.operators import DenseLinearOperator
from torch import Tensor

from botorch_tv.acquisition.exploration import BestMean
from botorch_tv.inference.data import Data
from botorch_tv.inference.protocol import Joint
from botorch_tv.inference.tensors import outside_inference_mode, without_gradients
from botorch_tv.strategies.checks import as_context, require_begun_with, require_state
from botorch_tv.strategies.deciding import Decision, believed_noise, numbers_of_search
from botorch_tv.strategies.draws import draws_from
from botorch_tv.strategies.gaussian import Gaussian
from botorch_tv.strategies.keeping import retained_at
from botorch_tv.strategies.located import clock, grouped, located
from botorch_tv.strategies.parts import Parts
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require_number

if TYPE_CHECKING:  # BoTorch's models import SciPy, .3 s that most strategies do without
    from botorch_tv.strategies.model import StrategyModel


@dataclass(frozen=True, kw_only=True, repr=False)
class Predictor(Parts):
    """Predictions and recommendations of a :class:`~botorch_tv.strategies.core.Strategy`."""

    def predicts(self, state: State) -> Tensor:
        """Whether predictions are available, `batch_shape`, bool; always, given a prior.

        Where they are not, ``mean`` and ``sd`` of a suggestion are meaningless.
        """
        require_state(state)
        return torch.ones_like(state.time, dtype=torch.bool)

    def describe(
        self, state: State, *, said: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        """The model of the objective in words; for most strategies, what they were given.

        Args:
            state: The current state.
            said: Formats a time.
            unit: Of time, such as "hours".
        """
        require_state(state)
        return f"What it was told: {self!r}."

    @without_gradients
    def recommend(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
        caution: float = 0.0,
    ) -> Tensor:
        """The point with the best posterior mean now, without exploration, `batch_shape x d`.

        The context follows, if there is one.

        Args:
            state: The current state.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
            caution: Posterior standard deviations by which a point must be better: the point
                maximises mean - caution sd, or minimises mean + caution sd.
        """
        require_state(state)
        caution = require_number("recommend: caution", caution, "[0, inf)", "0.5 is usual.")
        best = self._best(state, now, as_context(state, context), caution)
        return state.domain.points(best, state.basis.variance)

    @without_gradients
    def recommended_arm(self, state: State, *, now: float | Tensor | None = None) -> Tensor:
        """The index of the arm that :meth:`recommend` returns, `batch_shape`, int64; on a grid."""
        require_state(state)
        return self._best(state, now, as_context(state, None), 0.0)

    @without_gradients
    def arm_means(self, state: State) -> Tensor:
        """The posterior mean of f on all arms of a grid, one :meth:`step` after the newest data.

        Args:
            state: The current state.

        Returns:
            `batch_shape x M`, the prior mean included.
        """
        return self.decision(state).arm_means()

    @outside_inference_mode
    def posterior(
        self,
        state: State,
        X: Tensor,
        *,
        now: float | Tensor | None = None,
        observation_noise: bool = False,
    ) -> GPyTorchPosterior:
        """The posterior of f_now at given points.

        Args:
            state: The current state.
            X: Points of the domain, `e x batch_shape x q x d` with any leading dimensions e, or a
                shape that expands to it, followed by the context if there is one.
            now: As in :meth:`ask`.
            observation_noise: Whether to add the noise of a new observation.

        Returns:
            A joint posterior over q points, batched over `e x batch_shape`; on a box differentiable
            in ``X``.

        Raises:
            InputDataError: If a point is outside the domain or the shape does not fit.
        """
        require_state(state)
        groups = grouped(state, X)
        choice = located(state, groups, groups.shape[state.time.dim() : -1])
        mean, covariance, _ = self._joint(state, choice, now)
        if observation_noise:
            noise = self.believed_noise(state).to(mean)[..., None, None, None]
            identity = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
            covariance = covariance + noise * identity
        dims, lead = state.time.dim(), X.shape[:-2][: max(0, X.dim() - 2 - state.time.dim())]
        mean = mean.movedim(dims, 0).reshape(*lead, *state.time.shape, mean.shape[-1])
        covariance = covariance.movedim(dims, 0).reshape(*mean.shape, mean.shape[-1])
        # Lazily: many points of a smooth kernel have a covariance that is singular to rounding.
        return GPyTorchPosterior(Gaussian(mean, DenseLinearOperator(covariance)))

    def as_model(self, state: State, *, now: float | Tensor | None = None) -> StrategyModel:
        """The posterior as a BoTorch model over the columns of the domain, at a fixed time.

        Args:
            state: The current state.
            now: As in :meth:`ask`.
        """
        from botorch_tv.strategies.model import StrategyModel

        require_state(state)
        return StrategyModel(self, state, now)

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        """Numbers held in memory per trial by round ``horizon``, for sizing batches.

        An upper bound; on a grid the actual number is smaller when arms are played repeatedly.

        Args:
            state: Any state of this strategy.
            horizon: Rounds.
            trials: Trials that run together, among which some memory is shared.
        """
        inference = self.inference_for(state.domain, state.basis)
        looks = inference.looks(state.data, horizon)
        search = numbers_of_search(self.exploration, state.domain, looks, trials)
        return inference.numbers_per_trial(state.data, horizon, trials, search)

    def believed_noise(self, state: State) -> Tensor:
        """Noise variance of a new observation, as learned or given, `batch_shape`."""
        return believed_noise(self.inference_for(state.domain, state.basis), state.data)

    def prior_variance(self, state: State) -> float:
        """Variance of the objective before any data, the largest of all points; of one trial."""
        return float(state.basis.scale**2)

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        """The threshold on |y - mean| above which a trigger resets, `batch_shape`.

        The smallest of all rules; None if no rule has one.

        Args:
            state: The state that made the suggestion.
            suggestion: Where it will be measured.
        """
        data = self._data_at(state, suggestion.time)
        noise = self.believed_noise(state)
        bands = [rule.band(suggestion.sd, noise, data.since) for rule in self.process.retention]
        told = [band for band in bands if band is not None]
        return torch.stack(told).amin(0) if told else None

    def _data_at(self, state: State, now: Tensor) -> Data:
        """The data retained at time ``now``."""
        require_begun_with(state, self._model_fingerprints, self.process.retention)
        return retained_at(self.inference_for(state.domain, state.basis), state, now)[0]

    def step(self, state: State) -> float | Tensor:
        """Default time from the newest measurement to the next: 1."""
        return 1.0

    def decision(
        self,
        state: State,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
    ) -> Decision:
        """The posterior and everything else that the choice of a round depends on.

        Args:
            state: The current state.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.
        """
        require_state(state)
        present = clock(state, now, self.step(state))
        return Decision(
            process=self.process,
            inference=self.inference_for(state.domain, state.basis),
            width=self.width,
            sign=1 if self.maximize else -1,
            state=state,
            data=self._data_at(state, present.now),
            present=present,
            context=context,
        )

    def _best(
        self, state: State, now: float | Tensor | None, context: Tensor | None, caution: float
    ) -> Tensor:
        """The choice of the best posterior mean, less ``caution`` standard deviations."""
        decision = self.decision(state, now, context)
        return decision.chosen(BestMean(caution=caution), draws_from(None, state)).choice

    def _joint(self, state: State, choice: Tensor, now: float | Tensor | None) -> Joint:
        """The joint posterior of f_now within groups of arms or points."""
        return self.decision(state, now).joint(choice)
