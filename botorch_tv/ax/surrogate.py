"""Time in Ax: the time parameter, the model, and acquisition at the present time."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import torch
from ax.adapter.base import Adapter
from ax.adapter.data_utils import ExperimentData
from ax.adapter.random import RandomAdapter
from ax.adapter.transforms.base import Transform
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.search_space import SearchSpace, SearchSpaceDigest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.surrogate import (
    Surrogate,
    _submodel_input_constructor_base,
    submodel_input_constructor,
)
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.generators.torch_base import TorchOptConfig
from botorch.acquisition import AcquisitionFunction, AnalyticAcquisitionFunction
from botorch.models.model import Model, ModelList
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import _DefaultType
from torch import Tensor

from botorch_tv.acquisition.present import Placement, upper_confidence_bound
from botorch_tv.loop.log import patience
from botorch_tv.models import TimeVaryingGP
from botorch_tv.models.time_varying_gp import Forgetting, separate


def dropped(experiment: Experiment, lost_after: timedelta | None) -> set[int]:
    """The indices of trials that are not waited for: abandoned trials, and lost running trials.

    Args:
        experiment: The experiment.
        lost_after: Duration after which a running trial is lost. If None, the default is computed
            from the durations of trials that have ended; attached trials do not count.
    """
    trials = experiment.trials.values()
    took = [
        trial.time_completed - trial.time_run_started
        for trial in trials
        if trial.time_completed is not None
        and trial.time_run_started is not None
        and any(run.generator_run_type is None for run in trial.generator_runs)
    ]
    now, longest = datetime.now(), patience(took, lost_after)
    return {
        trial.index
        for trial in trials
        if trial.status.is_abandoned
        or (trial.status.is_running and now - trial.time_run_started > longest)
    }


class Clock(Transform):  # type: ignore[misc]
    """Checks the time parameter before other transforms, and drops lost trials; changes no data.

    This transform must be the first, with ``transform_configs={"Clock": {"time_parameter": "t"}}``.

    Args:
        search_space: The search space before all transforms.
        experiment_data: Not used.
        adapter: The adapter that uses this transform.
        config: A dict with the name of the time parameter under the key ``"time_parameter"``, and
            optionally ``"lost_after"``; see :func:`dropped`.

    Raises:
        UserInputError: If the time parameter is missing, if it is not a range of floats on a linear
            scale, or if it is the only tunable parameter.
    """

    no_op_for_experiment_data = True

    def __init__(
        self,
        search_space: SearchSpace | None = None,
        experiment_data: ExperimentData | None = None,
        adapter: Adapter | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(search_space, experiment_data, adapter, config)
        self.time_parameter: str = self.config["time_parameter"]
        assert search_space is not None, "Clock requires search space"
        check_search_space(search_space, self.time_parameter)
        self.parameter = search_space.parameters[self.time_parameter].clone()

    def transform_observation_features(
        self, observation_features: list[ObservationFeatures]
    ) -> list[ObservationFeatures]:
        """Drop the pending points of trials that are not waited for; see :func:`dropped`.

        Args:
            observation_features: Points.
        """
        if all(one.trial_index is None for one in observation_features):
            return observation_features
        gone = dropped(self.adapter._experiment, self.config.get("lost_after"))
        return [one for one in observation_features if one.trial_index not in gone]

    def transform_optimization_config(
        self,
        optimization_config: OptimizationConfig,
        adapter: Adapter | None = None,
        fixed_features: ObservationFeatures | None = None,
    ) -> OptimizationConfig:
        """Check the present time, and return the config unchanged.

        Args:
            optimization_config: The config.
            adapter: The adapter that uses this transform.
            fixed_features: The fixed parameters, with the present time.

        Raises:
            UserInputError: If the time is out of bounds, or missing for a random design.
        """
        now = None if fixed_features is None else fixed_features.parameters.get(self.time_parameter)
        if now is not None:
            check_now(now, self.parameter)
        elif isinstance(adapter, RandomAdapter):
            # A model may be called without a time, but a random design would then draw the time.
            check_fixed(now, self.time_parameter)
        return super().transform_optimization_config(optimization_config, adapter, fixed_features)


def check_search_space(search_space: SearchSpace, time_parameter: str) -> None:
    """Check that ``time_parameter`` is a linear range and that there are other parameters.

    Raises:
        UserInputError: If ``time_parameter`` is not a linear range of floats, or if no other
            parameter is tunable.
    """
    parameter = search_space.parameters.get(time_parameter)
    if (
        not isinstance(parameter, RangeParameter)
        or parameter.parameter_type != ParameterType.FLOAT
        or parameter.log_scale
        or parameter.logit_scale
    ):
        raise UserInputError(
            f"The time parameter {time_parameter!r} is {parameter}, but it must be a range of "
            f"floats on a linear scale; give configure_experiment a "
            f'RangeParameterConfig of that name, parameter_type="float", bounds=(0, horizon).'
        )
    if len(search_space.tunable_parameters) < 2:
        raise UserInputError(
            f"The only tunable parameter is {time_parameter!r}, which is time; add the parameters "
            "to tune."
        )


def check_now(now: float, parameter: RangeParameter) -> None:
    """Check that the present time lies in the bounds of the time parameter.

    Raises:
        UserInputError: If the time is out of bounds.
    """
    if not parameter.lower <= now <= parameter.upper:
        raise UserInputError(
            f"{parameter.name!r} is fixed at {now}, but its bounds are "
            f"({parameter.lower}, {parameter.upper}); configure the experiment with bounds that "
            "contain all times of the run."
        )


def check_fixed(now: object, time_parameter: str) -> None:
    """Check that the present time is given.

    Raises:
        UserInputError: If ``now`` is None.
    """
    if now is None:
        raise UserInputError(
            f"{time_parameter!r} is the time parameter, so each trial needs its value; "
            f"call get_next_trials(..., fixed_parameters={{{time_parameter!r}: now}})."
        )


def time_varying_model_config(
    time_parameter: str, forgetting: Forgetting = None, learn_forgetting: bool = True
) -> ModelConfig:
    """A model config for Ax's ``SurrogateSpec`` with a ``TimeVaryingGP`` per outcome.

    Args:
        time_parameter: Name of the time parameter.
        forgetting: The argument ``forgetting`` of :class:`TimeVaryingGP`; rates of change are per
            unit of ``time_parameter``.
        learn_forgetting: Whether fitting changes ``forgetting``.

    Raises:
        ValueError: If the model does not support ``forgetting``.
    """
    separate(forgetting)
    return ModelConfig(
        botorch_model_class=TimeVaryingGP,
        model_options={
            "time_parameter": time_parameter,
            "forgetting": forgetting,
            "learn_forgetting": learn_forgetting,
        },
        name="TimeVaryingGP",
    )


@submodel_input_constructor.register(TimeVaryingGP)  # type: ignore[untyped-decorator]
def construct_time_varying_inputs(
    botorch_model_class: type[TimeVaryingGP],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    """The arguments of the model, from Ax's config and data.

    The arguments are the same as for Ax's own models, except for the time column. The option
    ``time_parameter`` (a name) or ``time_dim`` (an index) selects the time column, and Ax's default
    scaling to the unit cube excludes this column.

    Args:
        botorch_model_class: The class of the model.
        model_config: The options of the model.
        dataset: The training data.
        search_space_digest: Bounds and names of the columns.
        surrogate: Ax's surrogate that will contain the model.

    Raises:
        ValueError: If the data have no column for the time parameter.
    """
    options = dict(model_config.model_options)
    names = list(dataset.feature_names)
    if "time_parameter" in options:
        options["time_dim"] = names.index(options.pop("time_parameter"))
    config = replace(model_config, model_options=options)
    if isinstance(config.input_transform_classes, _DefaultType):
        time = options.get("time_dim", -1) % len(names)
        space = [column for column in range(len(names)) if column != time]
        config.input_transform_classes = [Normalize]
        config.input_transform_options = {"Normalize": {"indices": space}}
    return _submodel_input_constructor_base(
        botorch_model_class,
        model_config=config,
        dataset=dataset,
        search_space_digest=search_space_digest,
        surrogate=surrogate,
    )


class PresentAcquisition(Acquisition):  # type: ignore[misc]
    """Ax's acquisition at the present time, which is the fixed value of the time parameter.

    The model discounts observations by their age at the present time. For observed and pending
    points, an acquisition function uses the values predicted for the present time. If suggestions
    are pending, the model for analytic acquisition functions is conditioned on the posterior mean
    at the pending points ([D14]).

    The option ``"width"`` is a confidence width; it sets the beta of ``UpperConfidenceBound``. If
    the confidence width depends on the number of the round, this number is the number of
    observations plus 1. If the confidence width depends on the dimension of the domain, the time
    column is not counted as a dimension.

    Args:
        surrogate: As in Ax's ``Acquisition``.
        search_space_digest: As in Ax's ``Acquisition``.
        torch_opt_config: As in Ax's ``Acquisition``; the fixed features in ``torch_opt_config``
            must contain the present time.
        more: Further arguments of Ax's ``Acquisition``.

    Raises:
        UserInputError: If the time parameter is not fixed.

    [D14] Desautels, Krause, Burdick, "Parallelizing Exploration-Exploitation Tradeoffs in Gaussian
    Process Bandit Optimization", 2014.
    """

    X_observed: Tensor | None
    X_pending: Tensor | None

    def __init__(
        self,
        surrogate: Surrogate,
        search_space_digest: SearchSpaceDigest,
        torch_opt_config: TorchOptConfig,
        **more: Any,
    ) -> None:
        names, time = search_space_digest.feature_names, _models(surrogate.model)[0].time_dim
        now = (torch_opt_config.fixed_features or {}).get(time)
        check_fixed(now, names[time])
        assert now is not None
        place = set_present(surrogate, now, names)
        # A copy, because Ax's surrogate must not change.
        present = copy(surrogate)
        present._training_data = [_placed(data, place) for data in surrogate.training_data]
        pending = torch_opt_config.pending_observations
        if pending is not None:  # an outcome without pending points has an empty tensor
            pending = [place(X) if X.numel() else X for X in pending]
        super().__init__(
            surrogate=present,
            search_space_digest=search_space_digest,
            torch_opt_config=replace(torch_opt_config, pending_observations=pending),
            **more,
        )

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        pending = self.X_pending
        if self.X_observed is not None:
            # Duplicate points would make the covariance singular.
            self.X_observed = torch.unique(self.X_observed, dim=0)
        if issubclass(botorch_acqf_class, AnalyticAcquisitionFunction):
            if self._outcome_constraints is not None:
                raise UserInputError(
                    f"{botorch_acqf_class.__name__} does not support outcome constraints; drop the "
                    "width, so that Ax chooses a function that supports them."
                )
            width = self.options.get("width")
            if width is not None:
                count = model.train_targets.shape[-1]
                bound = upper_confidence_bound(model, width, t=count + 1)
                botorch_acqf_options = {**botorch_acqf_options, "beta": bound.acq_function.beta}
            if pending is not None:
                mean = model.posterior(pending).mean.detach()
                model = model.condition_on_observations(pending, mean)
                self.X_pending = None  # analytic functions do not support pending points
        acqf = super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )
        self.X_pending = pending
        return acqf


def _models(model: Model) -> list[TimeVaryingGP]:
    """The models of all outcomes."""
    return list(model.models) if isinstance(model, ModelList) else [model]


def set_present(surrogate: Surrogate, now: float, names: list[str]) -> Placement:
    """Set the present time in all models of a surrogate.

    Args:
        surrogate: The fitted surrogate.
        now: The present time.
        names: Names of the columns.

    Returns:
        A function that sets the time of points to ``now``.

    Raises:
        UserInputError: If ``now`` lies before an observation.
    """
    models = _models(surrogate.model)
    time = models[0].time_dim
    newest = max(float(X[:, time].max()) for X in surrogate.Xs)
    if now < newest:
        raise UserInputError(
            f"{names[time]!r} is fixed at {now}, but a trial was measured at {newest}; "
            "give that time or a later time."
        )
    for model in models:
        model.set_now(now)
    return Placement.of(surrogate.model, now, time)


def _placed(data: SupervisedDataset, place: Placement) -> SupervisedDataset:
    """A copy of a dataset in which all points have the present time."""
    return SupervisedDataset(
        X=place(data.X),
        Y=data.Y,
        Yvar=data.Yvar,
        feature_names=data.feature_names,
        outcome_names=data.outcome_names,
    )
