"""A Gaussian likelihood whose noise grows with the age of an observation."""

from __future__ import annotations

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import Interval
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase
from gpytorch.priors import Prior
from torch import Tensor

from botorch_tv.forgetting import Inflation
from botorch_tv.likelihoods.aging import Aging, learnable
from botorch_tv.likelihoods.noise import AgeNoise


class AgeNoiseLikelihood(_GaussianLikelihoodBase):  # type: ignore[misc]
    r"""A Gaussian likelihood whose noise grows with age: λ · inflation(now - t).

    .. math:: p(y \mid f, t) = N(f, \lambda\, n(\text{now} - t))

    with n(lag) = γ^(-lag) ([W22] eq. (2)-(3)) or 1 + κ lag^α ([M] eq. (8)-(10)). Ages are read
    from the column of time of the inputs, never guessed from shapes: a new observation, one at
    ``now`` or later, has lag 0; the training data has its ages. Called without inputs the
    likelihood stands for the training data, which :class:`TimeVaryingGP` tells it; pass inputs,
    ``likelihood(model(X), X)``, for anything else.

    Age noise depends on ``now``, so it is not one joint prior over all times: the marginal
    likelihood is that of the data as seen from ``now``.

    Args:
        inflation: Where γ, or α and κ, start from, to be learned under default priors; or an
            :class:`Aging` with priors of one's own, or ``FixedAging`` to learn nothing.
        time_dim: Column of the input that holds time; it must reach the likelihood untransformed.
        now: Time that lags count back from, a number or `batch_shape`; the newest of the inputs
            given where None.
        noise: Known variance of each training observation at lag 0, `batch_shape x n`, NaN where
            the learned one applies; a new observation gets their mean. None learns λ.
        batch_shape: Batch shape of the learned parameters.
        noise_prior: Prior of λ, None for none; BoTorch's log-normal by default.
        noise_constraint: Bounds of λ; BoTorch's, at least 1e-4, where None.

    Example:
        >>> likelihood = AgeNoiseLikelihood(ExponentialWeights(gamma=0.97), now=100.0)
        >>> likelihood(model(X), X)  # X carries time in its last column
    """

    def __init__(
        self,
        inflation: Inflation | Aging,
        time_dim: int = -1,
        now: float | Tensor | None = None,
        noise: Tensor | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (immutable)
        noise_prior: Prior | _DefaultType | None = DEFAULT,
        noise_constraint: Interval | None = None,
    ) -> None:
        aging = inflation if isinstance(inflation, Aging) else learnable(inflation, batch_shape)
        super().__init__(
            AgeNoise(aging, time_dim, batch_shape, noise, noise_prior, noise_constraint)
        )
        self.set_now(now)

    @property
    def noise(self) -> Tensor:
        """Variance at lag 0: learned, `batch_shape x 1`, or as known, `batch_shape x n`."""
        return self.noise_covar.noise  # type: ignore[no-any-return]

    @noise.setter
    def noise(self, value: Tensor | float) -> None:
        self.noise_covar.noise = value

    @property
    def aging(self) -> Aging:
        """How noise grows with the lag."""
        return self.noise_covar.aging  # type: ignore[no-any-return]

    @property
    def now(self) -> Tensor | None:
        """Time that lags count back from; None for the newest input. Change it by ``set_now``."""
        return self.noise_covar.now  # type: ignore[no-any-return]

    def set_now(self, now: float | Tensor | None) -> None:
        """Let time pass. A model that cached predictions must be told too; ours has ``set_now``.

        Args:
            now: Time that lags count back from, a number or broadcastable with the batch; None for
                the newest of the inputs given.
        """
        if isinstance(now, Tensor):
            now = now.clone()  # a clock of the caller may go on in place
        elif now is not None:
            now = torch.tensor(now, dtype=torch.float64, device="cpu")
        self.noise_covar.now = now

    def set_training_data(self, X: Tensor, noise: Tensor | None = None) -> None:
        """Remember the training data, for calls without inputs and for known variances.

        Args:
            X: Training inputs, `... x n x d`.
            noise: Variance of each at lag 0, `... x n`, NaN where the learned one applies; the
                known ones stay as they are where None.
        """
        self.noise_covar.train_X = X
        if noise is not None:
            self.noise_covar.row_noise = noise
