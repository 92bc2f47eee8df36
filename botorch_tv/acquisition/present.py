"""BoTorch's acquisition functions at the present: time is fixed, the other columns are free.

:func:`at_present` wraps any acquisition function. Some acquisition functions need the present time
when they are constructed, so this module has classes for them. The noisy forms of expected
improvement, of its scalarisations and of hypervolume improvement need the present time because
their incumbents are present values of the outcomes. The knowledge gradient needs the present time
because it also searches for the best point of each fantasy. Importing this module registers these
classes with ``get_acqf_input_constructor``, for BoTorch and Ax. :func:`points_at_present` moves
points for BoTorch's other functions, such as ``prune_inferior_points``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogNoisyExpectedImprovement,
    NoisyExpectedImprovement,
    OneShotAcquisitionFunction,
    UpperConfidenceBound,
    qKnowledgeGradient,
    qLogNoisyExpectedImprovement,
)
from botorch.acquisition.input_constructors import (
    acqf_input_constructor,
    construct_inputs_qKG,
    construct_inputs_qLogNEHVI,
    construct_inputs_qLogNEI,
    construct_inputs_qLogNParEGO,
)
from botorch.acquisition.multi_objective.logei import qLogNoisyExpectedHypervolumeImprovement
from botorch.acquisition.multi_objective.parego import qLogNParEGO
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    InputDataWarning,
    UnsupportedError,
)
from botorch.models import MultiTaskGP
from botorch.models.model import Model, ModelList
from torch import Tensor

from botorch_tv.acquisition.widths import Width, WidthContext
from botorch_tv.kernels.declared import like
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models.adaptive_model import AdaptiveModel
from botorch_tv.models.aging_gp import AgingGP
from botorch_tv.models.training_data import check_now
from botorch_tv.validation import require, require_integer


@dataclass(frozen=True, eq=False)
class Placement:
    """Moves points to the present: their time becomes ``now``.

    Args:
        now: The present, `batch_shape`.
        time_dim: Index of the column of time among all columns, from 0.
        columns: Number d of columns of the points, including the column of time.
    """

    now: Tensor
    time_dim: int
    columns: int

    def __call__(self, X: Tensor) -> Tensor:
        """Points at the present, `... x q x d`.

        Args:
            X: Points without a time column, `... x q x (d - 1)`, or with a time column,
                `... x q x d`. The present replaces the times in a time column.

        Raises:
            BotorchTensorDimensionError: If the number of columns is neither d nor d - 1.
        """
        if X.dim() < 2 or X.shape[-1] not in (self.columns, self.columns - 1):
            raise BotorchTensorDimensionError(
                f"X has shape {tuple(X.shape)}, but it must be ... x q x "
                f"{self.columns - 1} (columns other than time) or ... x q x {self.columns} (column "
                f"{self.time_dim} is then replaced by now); omit a column of tasks."
            )
        now = self.now.to(X)[..., None, None]
        batch = torch.broadcast_shapes(X.shape[:-2], now.shape[:-2])  # type: ignore[no-untyped-call]
        X = X.expand(*batch, *X.shape[-2:])
        with_time = self.has_time(X)
        before, after = X[..., : self.time_dim], X[..., self.time_dim + with_time :]
        return torch.cat([before, now.expand(*batch, X.shape[-2], 1), after], -1)

    def candidates(self, X: Tensor) -> Tensor:
        """Move candidates to the present, and warn if a time in ``X`` is not the present.

        Raises:
            InputDataError: If such candidates need a gradient, as in the search of
                ``optimize_acqf``.
        """
        moved = self(X)
        if self.has_time(X) and not torch.equal(moved, X.expand_as(moved)):
            message = (
                f"candidates have times other than now, {self.now.tolist()}. The candidates "
                "are evaluated at now, but the search returns them with their original times. "
                "Search only the columns other than time, or pass "
                f"fixed_features={{{self.time_dim}: now}} to optimize_acqf; in Ax, give "
                "acquisition_class=botorch_tv.ax.PresentAcquisition."
            )
            if X.requires_grad:  # an error, because optimize_acqf suppresses warnings
                raise InputDataError(message)
            warnings.warn(message, InputDataWarning, stacklevel=3)
        return moved

    def has_time(self, X: Tensor | None) -> bool:
        """Whether points include a column of time."""
        return X is not None and X.shape[-1] == self.columns

    def distinct(self, X: Tensor) -> Tensor:
        """Points at the present, as by a call; without repetitions if they have no batch shape."""
        X = self(X)
        return X if X.dim() > 2 else torch.unique(X, dim=0)

    def without_time(self, X: Tensor) -> Tensor:
        """The points ``X``, `... x q x d`, without their column of time, `... x q x (d - 1)`."""
        return torch.cat([X[..., : self.time_dim], X[..., self.time_dim + 1 :]], -1)

    @classmethod
    def of(cls, model: Model, now: float | Tensor | None, time_dim: int | None) -> Placement:
        """The ``Placement`` that sets the times of points to the present time of a model.

        Args:
            model: A ``TimeVaryingGP``, an ``AdaptiveModel``, a list of models that contains such a
                model, or any BoTorch model with training inputs. Points for a ``MultiTaskGP`` have
                no column of tasks; the model's ``output_tasks`` selects the tasks.
            now: The present, a scalar or `batch_shape`; None for the model's ``now``.
            time_dim: Index of the time column in the training inputs; None for the model's
                ``time_dim``.

        Raises:
            InputDataError: If ``now`` lies before an observation, or if the model's noise is aged
                to another time.
            ValueError: If an argument is None and the model has no value for it, or if ``time_dim``
                differs from the model's ``time_dim``.
        """
        parts = list(model.models) if isinstance(model, ModelList) else [model]
        timed = [part for part in parts if isinstance(part, (AgingGP, AdaptiveModel))]
        if timed:
            time_dim = timed[0].time_dim if time_dim is None else time_dim
            now = timed[0].now if now is None else now
        if now is None or time_dim is None:
            raise ValueError(f"{type(model).__name__} has no time; give now and time_dim.")
        first = (timed or parts)[0]
        (inputs, *_) = first.train_inputs
        present, columns = like(now, inputs), inputs.shape[-1]
        require(
            bool(present.isfinite().all()),
            f"now is {present.tolist()}, but it must be finite; give a time, because without "
            "observations there is no default.",
        )
        task = first._task_feature if isinstance(first, MultiTaskGP) else None
        require(
            -columns <= time_dim < columns and time_dim % columns != task,
            f"time_dim is {time_dim}, but it must be the column of time, not of tasks, among the "
            f"model's {columns} columns; give its index.",
        )
        time_dim %= columns
        for part in timed:
            require(
                part.time_dim == time_dim,
                f"time_dim is {time_dim}, but a {type(part).__name__} has time in column "
                f"{part.time_dim}; omit time_dim, and give all models of a list the same columns.",
            )
            if part.train_targets.shape[-1]:
                check_now(present, part.newest)
            aged = isinstance(getattr(part, "likelihood", None), AgeNoiseLikelihood)
            if aged and bool((part.now != present).any()):
                raise InputDataError(
                    f"now is {present.tolist()}, but the model's noise is aged to "
                    f"{part.now.tolist()}; call model.set_now(now) first, then build the "
                    "acquisition function."
                )
        if task is None:
            return cls(present, time_dim, columns)
        return cls(present, time_dim - (time_dim > task), columns - 1)


__all__ = [
    "AtPresent",
    "NoisyAtPresent",
    "at_present",
    "points_at_present",
    "qKnowledgeGradientAtPresent",
    "qLogNParEGOAtPresent",
    "qLogNoisyExpectedHypervolumeImprovementAtPresent",
    "qLogNoisyExpectedImprovementAtPresent",
]

HELD = ("X_baseline", "X_pending", "mc_points", "candidate_set", "optimal_inputs", "pareto_sets")
"""Names of the attributes in which acquisition functions store points, except ``X_observed``.

The times of these points may differ from the present.
"""


def points_at_present(
    model: Model, X: Tensor, now: float | Tensor | None = None, *, time_dim: int | None = None
) -> Tensor:
    """Points at the present, `... x r x d`; repeated points of `r x d` count once.

    Args:
        model: The model.
        X: Points, `... x r x (d - 1)`, or `... x r x d` with their times.
        now: The present, a scalar or `batch_shape`, as in :func:`at_present`.
        time_dim: Index of the column of time, a scalar, as in :func:`at_present`.

    Raises:
        InputDataError: See :func:`at_present`.

    Example:
        >>> X = prune_inferior_points(model, points_at_present(model, train_X, now=12.0))
    """
    return Placement.of(model, now, time_dim).distinct(X)


def at_present(
    acq_function: AcquisitionFunction,
    now: float | Tensor | None = None,
    *,
    time_dim: int | None = None,
) -> AcquisitionFunction:
    """Evaluate an acquisition function at the present.

    The returned acquisition function accepts two forms of input. If ``optimize_acqf`` searches only
    the columns other than time, the input is `b x q x (d - 1)`. If ``optimize_acqf`` searches all
    columns, fix time by ``fixed_features={time_dim: now}``; a search over times is refused. In
    other inputs, `b x q x d`, the present replaces the time, with a warning if they differ.

    Analytic and Monte Carlo acquisition functions are supported. ``qKnowledgeGradient`` is also
    supported; BoTorch's ``FixedFeatureAcquisitionFunction`` does not support it.

    Args:
        acq_function: The acquisition function.
        now: The present, a scalar or `batch_shape`; the model's ``now`` if None.
        time_dim: Index of the time column in the training inputs; the model's ``time_dim`` if None.
            Points for a ``MultiTaskGP`` have no column of tasks; the model's ``output_tasks``
            selects the tasks.

    Raises:
        InputDataError: If ``now`` lies before an observation, or if the model's noise is aged to
            another time.
        UnsupportedError: If ``acq_function`` has no model, or is a one-shot acquisition function
            other than ``qKnowledgeGradient``.
        ValueError: If ``now`` or ``time_dim`` is None and the model has no attribute of this name.

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
            f"{type(acq_function).__name__} optimises fantasies, and at_present cannot fix their "
            f"time; pass fixed_features={{{place.time_dim}: now}} to optimize_acqf."
        )
    checked: list[Tensor] = []
    for part in _parts(acq_function):
        for name in (*HELD, "X_observed"):
            points = _held(part, name)
            if not isinstance(points, Tensor) or any(points is seen for seen in checked):
                continue
            checked.append(points)
            if not torch.equal(points, place(points)):
                warnings.warn(
                    f"{name} of {type(part).__name__} holds points at times other than the "
                    "present; at these times the objective had other values. Move the points to "
                    "the present by points_at_present, and draw the model's outputs there. To "
                    "move a candidate_set, move train_inputs, too. Set pending points by "
                    "set_X_pending() on the result of at_present. Or use a function such as "
                    "qLogNoisyExpectedImprovementAtPresent, which moves its baseline to the "
                    "present.",
                    InputDataWarning,
                    stacklevel=2,
                )
    return AtPresent(acq_function, place)


def _parts(acq_function: AcquisitionFunction) -> Iterator[AcquisitionFunction]:
    """The acquisition function, then the acquisition functions inside it."""
    return (part for part in acq_function.modules() if isinstance(part, AcquisitionFunction))


def _model_of(acq_function: AcquisitionFunction) -> Model:
    """The model of an acquisition function.

    A function without a model, such as BoTorch's proximal weighting, may contain a function that
    has a model.
    """
    found = next((part.model for part in _parts(acq_function) if hasattr(part, "model")), None)
    if found is None:
        raise UnsupportedError(
            f"at_present takes an acquisition function with a model, but "
            f"{type(acq_function).__name__} has none; give PosteriorMean(model), for example."
        )
    return found


def _held(acq_function: AcquisitionFunction, name: str) -> Any:
    """The points in an attribute of an acquisition function; None if it has no points."""
    noisy = isinstance(acq_function, (LogNoisyExpectedImprovement, NoisyExpectedImprovement))
    if noisy and name == "X_observed":  # the training inputs of the function's fantasy model
        return acq_function.model.train_inputs[0]
    return getattr(acq_function, name, None)


def _pending_in_baseline(acq_function: qLogNoisyExpectedImprovement) -> Tensor | None:
    """Pending points in the baseline of an incremental noisy expected improvement; None if none.

    The attribute ``X_pending`` of an incremental function is None, although the function has
    pending points. BoTorch appends sequential candidates to ``X_pending``, so it would lose the
    pending points in the baseline.
    """
    pending: Tensor = acq_function.X_baseline[..., acq_function._X_baseline.shape[-2] :, :]
    return pending if pending.shape[-2] else None


class AtPresent(AcquisitionFunction):  # type: ignore[misc]
    """An acquisition function that moves its points to the present; see :func:`at_present`.

    Args:
        acq_function: An acquisition function whose points have all columns, including time.
        place: The placement, which moves points to the present.
    """

    def __init__(self, acq_function: AcquisitionFunction, place: Placement) -> None:
        super().__init__(_model_of(acq_function))
        self.acq_function = acq_function
        self.place = place
        self._log = acq_function._log
        self._has_times = False

    def forward(self, X: Tensor) -> Tensor:
        """The acquisition value, `b`.

        Args:
            X: Candidates without a time column, `b x q x (d - 1)`, or with a time column,
                `b x q x d`. The present replaces the times in a time column.
        """
        return self.acq_function(self.place.candidates(X))

    @property
    def X_pending(self) -> Tensor | None:
        """Pending points (not measured yet), `p x (d - 1)`, or `p x d` with their times.

        BoTorch appends sequential candidates to the pending points. If BoTorch searches only the
        columns other than time, the candidates have no times.
        """
        X: Tensor | None = getattr(self.acq_function, "X_pending", None)
        for part in _parts(self.acq_function):
            if X is None and isinstance(part, qLogNoisyExpectedImprovement):
                X = _pending_in_baseline(part)
        return X if X is None or self._has_times else self.place.without_time(X)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the pending points: points that are chosen but not measured yet.

        Args:
            X_pending: The points, `p x (d - 1)` or `p x d`; None for no points.
        """
        self.acq_function.set_X_pending(None if X_pending is None else self.place(X_pending))
        self._has_times = self.place.has_time(X_pending)


class qKnowledgeGradientAtPresent(qKnowledgeGradient):  # type: ignore[misc]
    """The one-shot knowledge gradient; measurement and final choice are both at the present.

    Candidates, fantasies and the best points of the fantasies are all at the present. If the noise
    variance grows with the age of a measurement, fantasies have the noise variance of a new
    measurement.

    Args:
        model: As in ``qKnowledgeGradient``.
        positional: The positional arguments that follow ``model`` in ``qKnowledgeGradient``.
        options: Keyword arguments of ``qKnowledgeGradient``. ``X_pending`` is `p x (d - 1)` or
            `p x d`; ``current_value`` is the highest posterior mean *at the present*.
        now: The present, a scalar or `batch_shape`; the model's ``now`` if None.
        time_dim: Index of the time column; the model's ``time_dim`` if None.

    Raises:
        InputDataError: See :func:`at_present`.
    """

    def __init__(
        self,
        model: Model,
        *positional: Any,
        now: float | Tensor | None = None,
        time_dim: int | None = None,
        **options: Any,
    ) -> None:
        self.project = Placement.of(model, now, time_dim)  # BoTorch reads this attribute
        super().__init__(model, *positional, **options)

    def forward(self, X: Tensor) -> Tensor:
        """The one-shot value, `b`.

        Args:
            X: Candidates, followed by the best point of each fantasy: without a time column,
                `b x (q + num_fantasies) x (d - 1)`, or with a time column,
                `b x (q + num_fantasies) x d`. The present replaces the times in a time column.
        """
        return super().forward(self.project.candidates(X))

    def evaluate(self, X: Tensor, bounds: Tensor, **kwargs: Any) -> Tensor:
        """The knowledge gradient: the one-shot value with the best point of each fantasy, `b`.

        Args:
            X: Candidates without a time column, `b x q x (d - 1)`, or with a time column,
                `b x q x d`. The present replaces the times in a time column.
            bounds: Bounds of the search, `2 x (d - 1)`, or `2 x d`; in the second case, the bounds
                of time are ignored.
            kwargs: Options of the search, as in ``qKnowledgeGradient``.
        """
        return super().evaluate(self.project(X), bounds=bounds, **kwargs)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the pending points: points that are chosen but not measured yet.

        Args:
            X_pending: The points, `p x (d - 1)` or `p x d`; None for no points.
        """
        super().set_X_pending(None if X_pending is None else self.project(X_pending))


class NoisyAtPresent(AcquisitionFunction):  # type: ignore[misc]
    """Base of noisy acquisition functions whose baseline, candidates and pending points are now.

    Args:
        model: As in the acquisition function of BoTorch.
        positional: The positional arguments that follow ``model`` in BoTorch.
        now: The present, a scalar or `batch_shape`; the model's ``now`` if None.
        time_dim: Index of the time column; the model's ``time_dim`` if None.
        options: Keyword arguments of the acquisition function of BoTorch, such as ``constraints``.
            ``X_baseline``, the observed points, is `r x (d - 1)`, or `... x r x d` with their
            times. The points are moved to the present, where repeated points count once, and then
            pruned if ``prune_baseline`` is True. ``X_pending``, points that are chosen but not
            measured yet, is `p x (d - 1)` or `p x d`.

    Raises:
        InputDataError: See :func:`at_present`.
    """

    def __init__(
        self,
        model: Model,
        *positional: Any,
        now: float | Tensor | None = None,
        time_dim: int | None = None,
        **options: Any,
    ) -> None:
        self.place, self._inside = Placement.of(model, now, time_dim), False
        inputs = inspect.signature(super().__init__).bind(model, *positional, **options).arguments
        pending = inputs.get("X_pending")
        inputs["X_baseline"] = self.place.distinct(inputs["X_baseline"])
        if pending is not None:
            inputs["X_pending"] = self.place(pending)
        super().__init__(**inputs)
        self._has_times = self.place.has_time(pending)

    def forward(self, X: Tensor) -> Tensor:
        """The acquisition value, `b`.

        Args:
            X: Candidates without a time column, `b x q x (d - 1)`, or with a time column,
                `b x q x d`. The present replaces the times in a time column.
        """
        self._inside = True
        try:
            value: Tensor = super().forward(self.place.candidates(X))
        finally:
            self._inside = False
        return value

    @property
    def X_pending(self) -> Tensor | None:
        """Pending points (not measured yet), `p x (d - 1)`, or `p x d` with their times."""
        X = self._joined
        if self._inside:  # BoTorch joins these points, with times, to the candidates
            return X
        if X is None and isinstance(self, qLogNoisyExpectedImprovement):
            X = _pending_in_baseline(self)
        return X if X is None or self._has_times else self.place.without_time(X)

    @X_pending.setter
    def X_pending(self, X: Tensor | None) -> None:
        self._joined = X

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Set the pending points: points that are chosen but not measured yet.

        Args:
            X_pending: The points, `p x (d - 1)` or `p x d`; None for no points.
        """
        super().set_X_pending(None if X_pending is None else self.place(X_pending))
        self._has_times = self.place.has_time(X_pending)


class qLogNoisyExpectedImprovementAtPresent(NoisyAtPresent, qLogNoisyExpectedImprovement):  # type: ignore[misc]
    """Log noisy expected improvement over the objective's present values at earlier points."""


class qLogNParEGOAtPresent(NoisyAtPresent, qLogNParEGO):  # type: ignore[misc]
    """Log noisy expected improvement of a random scalarisation of present objectives."""


class qLogNoisyExpectedHypervolumeImprovementAtPresent(
    NoisyAtPresent,
    qLogNoisyExpectedHypervolumeImprovement,  # type: ignore[misc]
):
    """Log noisy expected hypervolume improvement over the objectives' present values."""


def upper_confidence_bound(model: AgingGP, width: Width, t: int) -> AcquisitionFunction:
    """BoTorch's ``UpperConfidenceBound`` at the present, with the width of a theorem.

    The score is mean + √beta · sd, where beta is the *square* of the width's ``sqrt_beta``.
    Information gains are computed from the model's data. The guarantees of the widths assume given
    hyperparameters, and do not hold for learned hyperparameters.

    Args:
        model: A model with one output.
        width: The confidence schedule.
        t: Number of the round for which a point is chosen, counted from 1.

    Raises:
        InputDataError: See :func:`botorch_tv.acquisition.present.at_present`.
        ValueError: If ``t`` is below 1, or if the width has no value in round ``t``.

    Example:
        >>> ucb = upper_confidence_bound(model, Logarithmic(c1=0.4, c2=4.0), t=len(train_Y) + 1)
        >>> x, _ = optimize_acqf(ucb, bounds[:, :-1], q=1, num_restarts=4, raw_samples=64)
    """
    t = require_integer("upper_confidence_bound: t", t, 1, "it counts rounds from 1.")
    place = Placement.of(model, None, None)
    context = WidthContext(t, place.columns - 1)
    with torch.no_grad():
        if width.gain is not None and width.gain.source == "weighted_information_gain":
            context = context._replace(weighted_information_gain=model.weighted_information_gain())
        elif width.gain is not None:
            context = context._replace(information_gain=model.information_gain())
    beta = like(width.beta(context), place.now)
    return AtPresent(UpperConfidenceBound(model, beta=beta), place)


def _register(
    kind: type[AcquisitionFunction], construct_inputs: Callable[..., dict[str, Any]]
) -> None:
    """Register a class with an input constructor that also accepts ``now`` and ``time_dim``.

    Args:
        kind: The class to register.
        construct_inputs: BoTorch's input constructor for the base class of ``kind``. The
            constructor for the knowledge gradient searches for ``current_value``; here it searches
            only at the present.
    """

    def construct(
        model: Model,
        *positional: Any,
        now: float | Tensor | None = None,
        time_dim: int | None = None,
        **named: Any,
    ) -> dict[str, Any]:
        if kind is qKnowledgeGradientAtPresent:
            place = Placement.of(model, now, time_dim)
            named["fixed_features"] = {place.time_dim: place.now}
        inputs = construct_inputs(model, *positional, **named)
        return {**inputs, "now": now, "time_dim": time_dim}

    taken = [*inspect.signature(construct_inputs).parameters, "now", "time_dim"]
    # BoTorch reads the accepted arguments from the signature.
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in taken]
    construct.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    acqf_input_constructor(kind)(construct)


_register(qLogNoisyExpectedImprovementAtPresent, construct_inputs_qLogNEI)
_register(qLogNParEGOAtPresent, construct_inputs_qLogNParEGO)
_register(qLogNoisyExpectedHypervolumeImprovementAtPresent, construct_inputs_qLogNEHVI)
_register(qKnowledgeGradientAtPresent, construct_inputs_qKG)
