"""A strategy's posterior as a BoTorch model, for acquisition functions of one's own."""

from __future__ import annotations

from collections.abc import Callable

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import Posterior
from torch import Size, Tensor

from botorch_tv.strategies.state import State
from botorch_tv.validation import require


class StrategyModel(Model):  # type: ignore[misc]
    """What a strategy believes of f_now, with its decay, its aged noise and its resets.

    ``X`` has the columns of the domain, time is fixed: `batch_shape x q x d` or, as acquisition
    functions ask, `b x batch_shape x q x d`. On a box the posterior is differentiable in ``X``, so
    that ``optimize_acqf`` works; on a grid ``X`` must be arms, as in ``optimize_acqf_discrete``.

    Args:
        predict: The posterior at points, as :meth:`Strategy.posterior` of a state and a time.
        state: All that has been observed; the model does not follow later states.

    Example:
        >>> model = strategy.as_model(state)
        >>> acqf = LogExpectedImprovement(model, best_f=best)
        >>> X, value = optimize_acqf(acqf, domain.bounds, q=1, num_restarts=4, raw_samples=64)
    """

    def __init__(self, predict: Callable[..., Posterior], state: State) -> None:
        super().__init__()
        self.predict, self.state = predict, state

    @property
    def num_outputs(self) -> int:
        """One."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """The batch shape of the state."""
        return self.state.time.shape

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The joint posterior of f_now.

        Args:
            X: `... x batch_shape x q x d`; dimensions before the batch's are points of their own.
            output_indices: None or [0]; there is one output.
            observation_noise: Whether to add the noise of a new observation.
            posterior_transform: As in BoTorch.

        Raises:
            InputDataError: If ``X`` does not fit the domain.
        """
        require(
            output_indices in (None, [0]),
            f"output_indices is {output_indices}, but a strategy has one output; pass None.",
        )
        joint = self.predict(X=X, observation_noise=observation_noise)
        return joint if posterior_transform is None else posterior_transform(joint)
