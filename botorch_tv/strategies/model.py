"""A strategy's posterior as a BoTorch model, for any acquisition function."""

from __future__ import annotations

from collections.abc import Callable

from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import Posterior
from torch import Size, Tensor

from botorch_tv.strategies.state import State
from botorch_tv.validation import require


class StrategyModel(Model):  # type: ignore[misc]
    """A strategy's posterior of f_now, with the effects of decay, aged noise and resets.

    Time is fixed, and ``X`` has the columns of the domain: `batch_shape x q x d` or, in acquisition
    functions, `b x batch_shape x q x d`. On a box the posterior is differentiable in ``X``, as
    ``optimize_acqf`` needs; on a grid ``X`` must be arms, as in ``optimize_acqf_discrete``.

    Args:
        predict: A function that returns the posterior at given points, such as
            :meth:`Strategy.posterior` with fixed state and time.
        state: The current state; the model does not follow later states.

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
        """The number 1: a strategy has a single output."""
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
            X: Points, `... x batch_shape x q x d`; the posterior is joint over q points.
            output_indices: None or [0], because there is one output.
            observation_noise: Whether the posterior includes the noise of a new observation.
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
