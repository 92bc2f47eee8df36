"""Points with the present as their time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models import MultiTaskGP
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_tv.kernels.batching import like
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models.adaptive_model import AdaptiveModel
from botorch_tv.models.aging_gp import AgingGP
from botorch_tv.models.checks import check_now
from botorch_tv.validation import require


@dataclass(frozen=True, eq=False)
class Placement:
    """Moves points to the present: their time becomes ``now``.

    Args:
        now: The present, `batch_shape`.
        time_dim: Column of time among all columns, counted from 0.
        columns: Number of columns with time, d.
        tasks: Whether the model has a column for tasks besides, which points leave out.
    """

    now: Tensor
    time_dim: int
    columns: int
    tasks: bool = False

    def __call__(self, X: Tensor) -> Tensor:
        """Points at the present, `... x q x d`.

        Args:
            X: Points without a time, `... x q x (d - 1)`, or with one that is replaced,
                `... x q x d`.

        Raises:
            BotorchTensorDimensionError: If the columns are neither d nor d - 1.
        """
        if X.dim() < 2 or X.shape[-1] not in (self.columns, self.columns - 1):
            tasks = " Leave out the column of tasks; output_tasks of MultiTaskGP says which count."
            raise BotorchTensorDimensionError(
                f"X is {tuple(X.shape)}, but points at the present are ... x q x "
                f"{self.columns - 1}, the columns other than time, or ... x q x {self.columns}, "
                f"whose column {self.time_dim} is replaced.{tasks * self.tasks}"
            )
        now = self.now.to(X)[..., None, None]
        batch = torch.broadcast_shapes(X.shape[:-2], now.shape[:-2])  # type: ignore[no-untyped-call]
        X = X.expand(*batch, *X.shape[-2:])
        with_time = self.has_time(X)
        before, after = X[..., : self.time_dim], X[..., self.time_dim + with_time :]
        return torch.cat([before, now.expand(*batch, X.shape[-2], 1), after], -1)

    def has_time(self, X: Tensor | None) -> bool:
        """Whether points have the column of time."""
        return X is not None and X.shape[-1] == self.columns

    def without_time(self, X: Tensor) -> Tensor:
        """The columns of points other than time, `... x q x (d - 1)`; X is `... x q x d`."""
        return torch.cat([X[..., : self.time_dim], X[..., self.time_dim + 1 :]], -1)

    @classmethod
    def of(cls, model: Model, now: float | Tensor | None, time_dim: int | None) -> Placement:
        """The placement for a model.

        Args:
            model: A ``TimeVaryingGP``, an ``AdaptiveModel``, a list of models with one in it, or
                any BoTorch model with training inputs. Points of a ``MultiTaskGP`` leave out the
                column of tasks, as for its posterior of all tasks.
            now: The present, a number or `batch_shape`; the model's own where None.
            time_dim: Column of time in the training inputs; the model's own where None.

        Raises:
            InputDataError: If ``now`` lies before an observation, or is not the ``now`` from which
                the noise of the observations is aged.
            ValueError: If the model does not know what is missing, or has time in another column.
        """
        parts = list(model.models) if isinstance(model, ModelList) else [model]
        known = [part for part in parts if isinstance(part, (AgingGP, AdaptiveModel))]
        if known:
            time_dim = known[0].time_dim if time_dim is None else time_dim
            now = known[0].now if now is None else now
        if now is None or time_dim is None:
            raise ValueError(
                f"{type(model).__name__} does not know what time it is; give now and time_dim."
            )
        first = (known or parts)[0]
        (inputs, *_) = first.train_inputs
        present = like(now, inputs)
        require(
            bool(present.isfinite().all()),
            f"now is {present.tolist()}, but it must be finite; without observations there is "
            "none to follow, so say what time it is.",
        )
        columns = inputs.shape[-1]
        require(
            -columns <= time_dim < columns,
            f"time_dim is {time_dim}, but the model has {columns} columns; name the one of time.",
        )
        for part in known:
            require(
                part.time_dim == time_dim % columns,
                f"time_dim is {time_dim}, but a {type(part).__name__} has time in column "
                f"{part.time_dim}; leave it out, and give all models of a list the same columns.",
            )
            _check_age(part, present)
        time_dim %= columns
        if not isinstance(first, MultiTaskGP):
            return cls(present, time_dim, columns)
        task = first._task_feature
        require(
            time_dim != task,
            f"time_dim is {time_dim}, but that column of the MultiTaskGP holds tasks; name the one "
            "of time, counted with that of tasks.",
        )
        return cls(present, time_dim - (time_dim > task), columns - 1, tasks=True)


def _check_age(model: AgingGP | AdaptiveModel, now: Tensor) -> None:
    """Raise unless observations are no later than ``now``, and aged as seen from it."""
    if model.train_targets.shape[-1]:
        check_now(now, model.newest)
    if isinstance(model, AdaptiveModel):
        return
    if isinstance(model.likelihood, AgeNoiseLikelihood) and bool((model.now != now).any()):
        raise InputDataError(
            f"now is {now.tolist()}, but the model's observations are as old as they are at "
            f"{model.now.tolist()}; call model.set_now(now) first, then build the acquisition "
            "function."
        )
