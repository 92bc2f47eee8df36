"""A model that tracks the present time and passes it to its likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from botorch import fit
from botorch.exceptions import BotorchTensorDimensionError
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor
from torch.nn import Module

from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.cholesky import cholesky, log_diagonal
from botorch_tv.kernels.declared import Declared, like
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models.growing_gp import GrowingGP
from botorch_tv.models.training_data import check_data, check_now


def rates(model: Module) -> list[Declared]:
    """The parts of a model that have learnable rates."""
    return [
        part
        for part in model.modules()
        if isinstance(part, Declared)
        and any(parameter.requires_grad for parameter in part.parameters(recurse=False))
    ]


class AgingGP(GrowingGP):
    """A GP that stores the present time and passes it to an ``AgeNoiseLikelihood``."""

    likelihood: Any
    time_dim: int
    _now: Tensor | None = None

    @property
    def _aged(self) -> Any:
        """The noise model of an ``AgeNoiseLikelihood``; None for other likelihoods."""
        aged = isinstance(self.likelihood, AgeNoiseLikelihood)
        return self.likelihood.noise_covar if aged else None

    @property
    def now(self) -> Tensor:
        """Present time, `batch_shape`: as set, or the time of the newest observation.

        The present time is minus infinity if none is set and there are no observations. Change the
        present time with :meth:`set_now`.
        """
        return self._present(self.train_inputs[0])

    @property
    def newest(self) -> Tensor:
        """Time of the newest observation, `batch_shape`; minus infinity without observations."""
        return self._newest(self.train_inputs[0])

    def set_now(self, now: float | Tensor | None) -> None:
        """Set the present time. Ages of observations change; cached predictions are cleared.

        Args:
            now: Present time, scalar or `batch_shape`, no earlier than any observation; None to
                follow the newest observation.

        Raises:
            InputDataError: If an observation is later than ``now``, or if ``now`` is not finite.
        """
        if now is not None:
            now = like(now, self.train_targets)
            check_now(now, self.newest)
        self._now = now
        if self._aged is not None:
            self.prediction_strategy = None
        self._update_likelihood(self.train_inputs[0])

    def measure(self) -> None:
        """Express rates of forgetting per median time between observations.

        Predictions do not change. The constructor and ``fit_gpytorch_mll`` call this method.
        """
        for part in rates(self):
            part.measure(self._unit())

    def listen(self) -> None:
        """Call :meth:`measure`, and move rates away from values where the gradient vanishes."""
        for part in rates(self):
            part.listen(self._unit())

    def custom_fit(self, mll: MarginalLogLikelihood, **options: Any) -> MarginalLogLikelihood:
        """For ``fit_gpytorch_mll``: fit this model, starting from rates with non-zero gradient.

        Args:
            mll: The marginal log-likelihood of this model.
            options: Options of ``fit_gpytorch_mll``.
        """
        self.listen()
        return fit._fit_fallback(mll, **options)

    def _unit(self) -> Tensor:
        """The median time between consecutive observations, `batch_shape (x m)`."""
        return median_gap(self.train_inputs[0][..., self.time_dim].detach())

    def weighted_information_gain(self) -> Tensor:
        """Information gain ḡ of [W22] eq. (5), with noise λ γ^(-2 age), `batch_shape`; O(n³)."""
        if self._aged is None:
            return self.information_gain()
        self.eval()
        (inputs,) = self.train_inputs
        noise = self._aged.of_training(power=2.0)
        factor = cholesky(self._covariance(inputs, inputs), noise.rsqrt(), checked=True)
        return log_diagonal(factor)

    def _present(self, inputs: Tensor) -> Tensor:
        """Present time given training inputs `... x n x d`."""
        return self._newest(inputs) if self._now is None else self._now

    def _newest(self, inputs: Tensor) -> Tensor:
        """Time of the newest observation, `batch_shape`; minus infinity without observations."""
        times = inputs[..., self.time_dim]
        if self.num_outputs > 1:
            times = times[..., 0, :]
        if times.shape[-1] == 0:
            return times.new_full(times.shape[:-1], -torch.inf)
        return times.amax(-1)

    def _update_likelihood(self, inputs: Tensor) -> None:
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            now = self._present(inputs)
            self.likelihood.set_training_data(inputs)
            self.likelihood.set_now(now.unsqueeze(-1) if self.num_outputs > 1 else now)

    def set_train_data(
        self, inputs: Any = None, targets: Tensor | None = None, strict: bool = True
    ) -> None:
        """Replace the training data, but not the parameters.

        Args:
            inputs: Transformed inputs, `... x n x d`, or a sequence that starts with them; None to
                retain the present inputs.
            targets: Observations, `... x n`; None to retain the present targets.
            strict: Whether shapes, dtypes and devices must stay the same.

        Raises:
            InputDataError: If an observation is later than the ``now`` that was set, if a time is
                not finite, or if a target is NaN.
            BotorchTensorDimensionError: If ``inputs`` and ``targets`` have different numbers of
                rows, if the number of columns of ``inputs`` differs from the training data, or if
                the likelihood has noise variances for a different number of rows.
        """
        X = self.train_inputs[0] if inputs is None else inputs
        X = X if isinstance(X, Tensor) else X[0]
        Y = self.train_targets if targets is None else targets
        columns = self.train_inputs[0].shape[-1]
        check_data(X, Y.unsqueeze(-1), columns=columns, time_dim=self.time_dim)
        held = self._row_noise if self._aged is None else self._aged.row_noise
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            held = self.likelihood.noise
        rows = X.shape[-2]
        if Y.shape[-1] != rows or (held is not None and held.shape[-1] not in (rows, 1)):
            given = "" if held is None else f", and {held.shape[-1]} given noise variances"
            raise BotorchTensorDimensionError(
                f"There are {rows} inputs and {Y.shape[-1]} targets{given}; set inputs and targets "
                "together. To change rows that have given variances, build a new model with "
                "train_Yvar, or call condition_on_observations(X, Y, noise)."
            )
        if self._now is not None:
            check_now(self._now, self._newest(X))
        super().set_train_data(inputs=inputs, targets=targets, strict=strict)
        self._update_likelihood(self.train_inputs[0])

    def _extract_targets_and_noise(self) -> tuple[Tensor, Tensor | None]:
        Y, Yvar = super()._extract_targets_and_noise()
        if self._aged is not None and self._aged.row_noise is not None:
            rows = self._aged.row_noise
            Yvar = rows.mT if self.num_outputs > 1 else rows.unsqueeze(-1)
        return Y, Yvar

    def _restore_targets_and_noise(self, Y: Tensor, Yvar: Tensor | None, strict: bool) -> None:
        if self._aged is not None and Yvar is not None:
            self._aged.row_noise = Yvar.mT if self.num_outputs > 1 else Yvar.squeeze(-1)
        super()._restore_targets_and_noise(Y, Yvar, strict)

    def _training_noise(self, inputs: Tensor) -> Tensor:
        if self._aged is None:
            return super()._training_noise(inputs)
        return self._aged.of_training()

    def _new_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        if self._aged is None:
            return super()._new_noise(X, noise)
        return self._aged.of(X, noise)

    def _learn_rows(
        self, old: Self, inputs: Tensor, X: Tensor, noise: Tensor | None
    ) -> Tensor | None:
        if self._aged is None:
            return super()._learn_rows(old, inputs, X, noise)
        covar, before = self._aged, old._aged
        covar.grow(before, inputs, X, noise)
        self._update_likelihood(inputs)
        # A later present time changes the noise of all old observations.
        if self._now is None and bool((covar.now != before.now).any()):
            return None
        return self._new_noise(X, noise)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self._now is not None:
            destination[prefix + "now"] = self._now if keep_vars else self._now.detach()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.pop(prefix + "now", None)
        super()._load_from_state_dict(state_dict, prefix, *args)
        if saved is None:
            return
        later = torch.maximum(like(saved, self.train_targets), self.now)
        if later.shape != self.now.shape:
            args[-1].append(f"size mismatch for {prefix}now: {tuple(saved.shape)}")
        # Loading never sets the present time to a time before the newest observation.
        elif bool((later > self.now).any()):
            self.set_now(later)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        if self._now is not None:
            self._now = fn(self._now)
        return super()._apply(fn)
