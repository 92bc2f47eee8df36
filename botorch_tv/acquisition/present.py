"""BoTorch's acquisition functions at the present: time is fixed, the other columns are free.

:func:`at_present` wraps any of them. Two need the present when they are built: noisy expected
improvement, whose incumbents are current values, and the knowledge gradient, which also optimises
fantasies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogNoisyExpectedImprovement,
    NoisyExpectedImprovement,
    OneShotAcquisitionFunction,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.logei import TAU_MAX, TAU_RELU
from botorch.acquisition.objective import MCAcquisitionObjective, PosteriorTransform
from botorch.exceptions import InputDataWarning, UnsupportedError
from botorch.models.model import Model
from botorch.sampling.base import MCSampler
from botorch.utils.transforms import match_batch_shape
from torch import Tensor

from botorch_tv.acquisition.placement import Placement

__all__ = [
    "AtPresent",
    "at_present",
    "qKnowledgeGradientAtPresent",
    "qLogNoisyExpectedImprovementAtPresent",
]

HELD = {
    "X_baseline": "qLogNoisyExpectedImprovementAtPresent brings them up",
    "X_pending": "give them to set_X_pending() of what at_present gives, which does",
    "mc_points": "give them the time of the present",
    "candidate_set": "give it the time of the present, and the training inputs that BoTorch adds "
    "to it, by train_inputs",
    "optimal_inputs": "give them the time of the present, and outputs drawn there",
    "pareto_sets": "give them the time of the present",
    "X_observed": "give them the time of the present, or qLogNoisyExpectedImprovementAtPresent, "
    "which brings them up",
}
"""Attributes that hold points of possibly another time, and how to move them to the present."""


def at_present(
    acq_function: AcquisitionFunction,
    now: float | Tensor | None = None,
    *,
    time_dim: int | None = None,
) -> AcquisitionFunction:
    """Evaluate an acquisition function at the present.

    The result takes the columns other than time, `b x q x (d - 1)`, so that ``optimize_acqf`` runs
    over these; or all columns, `b x q x d`, whose time is replaced, as with ``fixed_features``. It
    supports analytic and Monte Carlo acquisition functions, and ``qKnowledgeGradient``, which
    BoTorch's own ``FixedFeatureAcquisitionFunction`` does not.

    Args:
        acq_function: The acquisition function.
        now: The present, a number or `batch_shape`; the model's ``now`` if None.
        time_dim: Index of the time column in the training inputs; the model's if None. Points of a
            ``MultiTaskGP`` leave out the column of tasks: ``output_tasks`` says which count.

    Raises:
        InputDataError: If ``now`` lies before an observation, or the model's age noise is for
            another time.
        UnsupportedError: For other one-shot acquisition functions, and where there is no model.
        ValueError: If ``now`` or ``time_dim`` is needed.

    Example:
        >>> best = at_present(qLogExpectedImprovement(model, best_f), now=12.0)
        >>> x, _ = optimize_acqf(best, bounds[:, :-1], q=2, num_restarts=4, raw_samples=64)
    """
    place = Placement.of(_model_of(acq_function), now, time_dim)
    if type(acq_function) in (qKnowledgeGradient, qKnowledgeGradientAtPresent):
        return qKnowledgeGradientAtPresent(
            model=acq_function.model,
            num_fantasies=acq_function.num_fantasies,
            sampler=acq_function.sampler,
            objective=acq_function.objective,
            posterior_transform=acq_function.posterior_transform,
            inner_sampler=acq_function.inner_sampler,
            X_pending=acq_function.X_pending,
            current_value=acq_function.current_value,
            now=place.now,
            time_dim=place.time_dim,
        )
    if isinstance(acq_function, OneShotAcquisitionFunction):
        raise UnsupportedError(
            f"{type(acq_function).__name__} optimises fantasies along in a way of its own; hold "
            f"time by fixed_features={{{place.time_dim}: now}} in optimize_acqf."
        )
    told: list[Tensor] = []
    for part in _parts(acq_function):
        for name, cure in HELD.items():
            points = _held(part, name)
            if not isinstance(points, Tensor) or any(points is one for one in told):
                continue
            told.append(points)
            if not torch.equal(points, place(points)):
                warnings.warn(
                    f"{name} of {type(part).__name__} holds points of another time than the "
                    f"present, at which values are others; {cure}.",
                    InputDataWarning,
                    stacklevel=2,
                )
    return AtPresent(acq_function, place)


def _parts(acq_function: AcquisitionFunction) -> Iterator[AcquisitionFunction]:
    """The acquisition function itself, then those inside it."""
    return (part for part in acq_function.modules() if isinstance(part, AcquisitionFunction))


def _model_of(acq_function: AcquisitionFunction) -> Model:
    """The model of the function, or of one inside it, as in BoTorch's proximal weighting."""
    found = next((part.model for part in _parts(acq_function) if hasattr(part, "model")), None)
    if found is None:
        raise UnsupportedError(
            f"at_present takes an acquisition function with a model, but "
            f"{type(acq_function).__name__} is none; give one, such as "
            "at_present(PosteriorMean(model), now=...)."
        )
    return found


def _held(acq_function: AcquisitionFunction, name: str) -> Any:
    """The points in an attribute of an acquisition function; None if there are none."""
    noisy = isinstance(acq_function, (LogNoisyExpectedImprovement, NoisyExpectedImprovement))
    if noisy and name == "X_observed":  # all that the model of its fantasies was trained on
        return acq_function.model.train_inputs[0]
    return getattr(acq_function, name, None)


def _pending_in_baseline(acq_function: qLogNoisyExpectedImprovement) -> Tensor | None:
    """Pending points of incremental improvement, which keeps them behind the observed points.

    Its ``X_pending`` is None, so BoTorch would lose them when it appends the candidates that it
    finds one after the other.
    """
    pending: Tensor = acq_function.X_baseline[..., acq_function._X_baseline.shape[-2] :, :]
    return pending if pending.shape[-2] else None


class AtPresent(AcquisitionFunction):  # type: ignore[misc]
    """An acquisition function of points that a placement moves; see :func:`at_present`.

    Args:
        acq_function: The acquisition function on all columns.
        place: Moves points to the present.
    """

    def __init__(self, acq_function: AcquisitionFunction, place: Placement) -> None:
        super().__init__(_model_of(acq_function))
        self.acq_function = acq_function
        self.place = place
        self._log = acq_function._log
        self._told_times = False

    def forward(self, X: Tensor) -> Tensor:
        """Values at `b x q x (d - 1)` or `b x q x d`: `b`."""
        value: Tensor = self.acq_function(self.place(X))
        return value

    @property
    def X_pending(self) -> Tensor | None:
        """Points chosen but not measured yet, `p x (d - 1)`, or `p x d` if told with their times.

        BoTorch appends the candidates that it finds one after the other, which have no times where
        it searches the columns other than time.
        """
        X: Tensor | None = getattr(self.acq_function, "X_pending", None)
        for part in _parts(self.acq_function):
            if X is None and isinstance(part, qLogNoisyExpectedImprovement):
                X = _pending_in_baseline(part)
        return X if X is None or self._told_times else self.place.without_time(X)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the points chosen but not measured yet, `p x (d - 1)` or `p x d`."""
        self.acq_function.set_X_pending(None if X_pending is None else self.place(X_pending))
        self._told_times = self.place.has_time(X_pending)


class qKnowledgeGradientAtPresent(qKnowledgeGradient):  # type: ignore[misc]
    """The one-shot knowledge gradient, with measurement and final choice at the present.

    Candidates, fantasies and the best points of the fantasies all have the present as their time.
    With age noise, fantasies have the noise of a new measurement.

    Args:
        model: As in ``qKnowledgeGradient``, like all up to ``current_value``.
        num_fantasies: Number of fantasies; that of ``sampler`` where None.
        sampler: Sampler of the fantasies.
        objective: Monte Carlo objective.
        posterior_transform: Transform of the posterior.
        inner_sampler: Sampler under an ``objective``.
        X_pending: Points chosen but not measured yet, `p x (d - 1)` or `p x d`.
        current_value: Highest posterior mean *at the present*, subtracted where given.
        now: The present, a number or `batch_shape`; the ``now`` of the model where None.
        time_dim: Column of time; that of the model where None.

    Raises:
        InputDataError: See :func:`at_present`.
    """

    def __init__(
        self,
        model: Model,
        num_fantasies: int | None = 64,
        sampler: MCSampler | None = None,
        objective: MCAcquisitionObjective | None = None,
        posterior_transform: PosteriorTransform | None = None,
        inner_sampler: MCSampler | None = None,
        X_pending: Tensor | None = None,
        current_value: Tensor | None = None,
        now: float | Tensor | None = None,
        time_dim: int | None = None,
    ) -> None:
        self.project = Placement.of(model, now, time_dim)  # by this name BoTorch looks for it
        super().__init__(
            model=model,
            num_fantasies=num_fantasies,
            sampler=sampler,
            objective=objective,
            posterior_transform=posterior_transform,
            inner_sampler=inner_sampler,
            X_pending=X_pending,
            current_value=current_value,
        )

    def forward(self, X: Tensor) -> Tensor:
        """Values at candidates, followed by the best point of each fantasy.

        Args:
            X: `b x (q + num_fantasies) x (d - 1)`, or with a column of time that is replaced.
        """
        value: Tensor = super().forward(self.project(X))
        return value

    def evaluate(self, X: Tensor, bounds: Tensor, **kwargs: Any) -> Tensor:
        """Values at candidates `b x q x (d - 1)`, maximised over the best point of each fantasy.

        Args:
            X: Candidates, or with a column of time that is replaced.
            bounds: Bounds of the search, `2 x (d - 1)`, or with a column of time, which is ignored.
            kwargs: Options of the search, as in ``qKnowledgeGradient``.
        """
        value: Tensor = super().evaluate(self.project(X), bounds=bounds, **kwargs)
        return value

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the points chosen but not measured yet, `p x (d - 1)` or `p x d`."""
        super().set_X_pending(None if X_pending is None else self.project(X_pending))


class qLogNoisyExpectedImprovementAtPresent(qLogNoisyExpectedImprovement):  # type: ignore[misc]
    """Log noisy expected improvement at the present, over the current values of earlier points.

    Args:
        model: As in ``qLogNoisyExpectedImprovement``, like all up to ``incremental``.
        X_baseline: Points observed, `r x (d - 1)` or with their times `... x r x d`; brought to the
            present, and points measured more than once counted once.
        sampler: Sampler of the values.
        objective: Monte Carlo objective.
        posterior_transform: Transform of the posterior.
        X_pending: Points chosen but not measured yet, `p x (d - 1)` or `p x d`.
        constraints: Outcome constraints.
        eta: Their temperature.
        fat: Whether the smoothed ReLU has fat tails.
        prune_baseline: Whether points unlikely to be best are left out.
        cache_root: Whether the root of the covariance of the baseline is kept.
        tau_max: Temperature of the maximum.
        tau_relu: Temperature of the ReLU.
        marginalize_dim: Dimension to marginalise over.
        incremental: Whether the improvement is that over pending points, too.
        now: The present, a number or `batch_shape`; the ``now`` of the model where None.
        time_dim: Column of time; that of the model where None.

    Raises:
        InputDataError: See :func:`at_present`.
    """

    def __init__(
        self,
        model: Model,
        X_baseline: Tensor,
        sampler: MCSampler | None = None,
        objective: MCAcquisitionObjective | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        constraints: list[Callable[[Tensor], Tensor]] | None = None,
        eta: Tensor | float = 1e-3,
        fat: bool = True,
        prune_baseline: bool = True,
        cache_root: bool | None = None,
        tau_max: float = TAU_MAX,
        tau_relu: float = TAU_RELU,
        marginalize_dim: int | None = None,
        incremental: bool = True,
        now: float | Tensor | None = None,
        time_dim: int | None = None,
    ) -> None:
        self.place = place = Placement.of(model, now, time_dim)
        baseline = place(X_baseline)
        super().__init__(
            model=model,
            X_baseline=baseline if baseline.dim() > 2 else torch.unique(baseline, dim=0),
            sampler=sampler,
            objective=objective,
            posterior_transform=posterior_transform,
            X_pending=None if X_pending is None else place(X_pending),
            constraints=constraints,
            eta=eta,
            fat=fat,
            prune_baseline=prune_baseline,
            cache_root=cache_root,
            tau_max=tau_max,
            tau_relu=tau_relu,
            marginalize_dim=marginalize_dim,
            incremental=incremental,
        )
        self._told_times = place.has_time(X_pending)

    def forward(self, X: Tensor) -> Tensor:
        """Values at `b x q x (d - 1)` or `b x q x d`: `b`."""
        X = self.place(X)
        if self._joined is not None:
            X = torch.cat([X, match_batch_shape(self._joined, X)], -2)
        # The function below BoTorch's decorator, which would join pending points of the baseline.
        value: Tensor = qLogNoisyExpectedImprovement.forward.__wrapped__(self, X)
        return value

    @property
    def X_pending(self) -> Tensor | None:
        """Points chosen but not measured yet, `p x (d - 1)`, or `p x d` if told with times."""
        X = _pending_in_baseline(self) if self.incremental else self._joined
        return X if X is None or self._told_times else self.place.without_time(X)

    @X_pending.setter
    def X_pending(self, X: Tensor | None) -> None:
        # Only what BoTorch would join to candidates is ever set.
        self._joined = X

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the points chosen but not measured yet, `p x (d - 1)` or `p x d`."""
        super().set_X_pending(None if X_pending is None else self.place(X_pending))
        self._told_times = self.place.has_time(X_pending)
