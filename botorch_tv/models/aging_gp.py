"""A model that knows what time it is, and tells its likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from botorch_tv.kernels.batching import like
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models.checks import check_now
from botorch_tv.models.growing_gp import GrowingGP


class AgingGP(GrowingGP):
    """Keeps the present time, and the noise of every row in step with it.

    Without an ``AgeNoiseLikelihood`` the present is only remembered.
    """

    likelihood: Any
    time_dim: int
    _now: Tensor | None = None

    @property
    def now(self) -> Tensor:
        """Present time, `batch_shape`: as set, or that of the newest observation.

        Minus infinity where there is neither. Change it by :meth:`set_now`.
        """
        return self._present(self.train_inputs[0])

    def set_now(self, now: float | Tensor | None) -> None:
        """Let time pass: observations age, and cached predictions are dropped.

        Args:
            now: Present time, a number or `batch_shape`, no earlier than any observation; None to
                follow the newest.

        Raises:
            InputDataError: If an observation is later, or ``now`` is not finite.
        """
        if now is not None:
            now = like(now, self.train_targets)
            check_now(now, self._newest(self.train_inputs[0]))
        self._now = now
        self.prediction_strategy = None
        self._tell_likelihood(self.train_inputs[0])

    def _present(self, inputs: Tensor) -> Tensor:
        """Present time given training inputs `... x n x d`."""
        return self._newest(inputs) if self._now is None else self._now

    def _newest(self, inputs: Tensor) -> Tensor:
        """Time of the newest observation, `batch_shape`; minus infinity without any."""
        times = inputs[..., self.time_dim]
        if self.num_outputs > 1:
            times = times[..., 0, :]
        if times.shape[-1] == 0:
            return times.new_full(times.shape[:-1], -torch.inf)
        return times.amax(-1)

    def _tell_likelihood(self, inputs: Tensor) -> None:
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            now = self._present(inputs)
            self.likelihood.set_training_data(inputs)
            self.likelihood.set_now(now.unsqueeze(-1) if self.num_outputs > 1 else now)

    def set_train_data(
        self, inputs: Any = None, targets: Tensor | None = None, strict: bool = True
    ) -> None:
        super().set_train_data(inputs=inputs, targets=targets, strict=strict)
        self._tell_likelihood(self.train_inputs[0])

    def _extract_targets_and_noise(self) -> tuple[Tensor, Tensor | None]:
        Y, Yvar = super()._extract_targets_and_noise()
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            rows = self.likelihood.noise_covar.row_noise
            if rows is not None:
                Yvar = rows.mT if self.num_outputs > 1 else rows.unsqueeze(-1)
        return Y, Yvar

    def _restore_targets_and_noise(self, Y: Tensor, Yvar: Tensor | None, strict: bool) -> None:
        if isinstance(self.likelihood, AgeNoiseLikelihood) and Yvar is not None:
            rows = Yvar.mT if self.num_outputs > 1 else Yvar.squeeze(-1)
            self.likelihood.noise_covar.row_noise = rows
        super()._restore_targets_and_noise(Y, Yvar, strict)

    def _training_noise(self, inputs: Tensor) -> Tensor:
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            return self.likelihood.noise_covar.of_training()  # type: ignore[no-any-return]
        return super()._training_noise(inputs)

    def _new_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            return self.likelihood.noise_covar.of(X, noise)  # type: ignore[no-any-return]
        return super()._new_noise(X, noise)

    def _learn_rows(
        self, old: Self, inputs: Tensor, X: Tensor, noise: Tensor | None
    ) -> Tensor | None:
        if not isinstance(self.likelihood, AgeNoiseLikelihood):
            return super()._learn_rows(old, inputs, X, noise)
        covar, before = self.likelihood.noise_covar, old.likelihood.noise_covar
        covar.grow(before, inputs, X, noise)
        self._tell_likelihood(inputs)
        # The reference moved: the noise of every old observation is another now.
        if self._now is None and bool((covar.now != before.now).any()):
            return None
        return self._new_noise(X, noise)

    def _data_elsewhere(self) -> list[Tensor]:
        held = super()._data_elsewhere()
        if isinstance(self.likelihood, AgeNoiseLikelihood):
            covar = self.likelihood.noise_covar
            held += [rows for rows in (covar.train_X, covar.row_noise) if rows is not None]
        return held

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        if self._now is not None:
            self._now = fn(self._now)
        return super()._apply(fn)
