"""A generation strategy for ``ax.api.client.Client``, and code that lets Ax store it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import timedelta
from typing import Any

from ax.adapter.registry import Cont_X_trans, Generators, MBM_X_trans
from ax.adapter.transforms.bilog_y import BilogY
from ax.adapter.transforms.derelativize import Derelativize
from ax.adapter.transforms.standardize_y import StandardizeY
from ax.adapter.transforms.unit_x import UnitX
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.storage.botorch_modular_registry import (
    register_acquisition,
    register_acquisition_function,
    register_model,
)
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.transform_registry import register_transform
from botorch.acquisition import UpperConfidenceBound

from botorch_tv import acquisition, forgetting
from botorch_tv.acquisition import Width
from botorch_tv.acquisition.present import (
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedHypervolumeImprovementAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
    qLogNParEGOAtPresent,
)
from botorch_tv.ax.adaptive import AdaptiveNode
from botorch_tv.ax.surrogate import Clock, PresentAcquisition, time_varying_model_config
from botorch_tv.hints import hinted
from botorch_tv.models import TimeVaryingGP
from botorch_tv.models.time_varying_gp import Forgetting
from botorch_tv.validation import require, require_duration, require_integer

# Ax's transforms, except the scaling to the unit cube, because it would round times.
RANDOM_TRANSFORMS = [transform for transform in Cont_X_trans if transform is not UnitX]
# Ax's transforms, except winsorising, because it would clip the values after a jump.
OUTCOME_TRANSFORMS = [Derelativize, BilogY, StandardizeY]


@hinted
def time_varying_generation_strategy(
    time_parameter: str,
    forgetting: Forgetting = None,
    learn_forgetting: bool = True,
    width: Width | None = None,
    initialization_trials: int = 5,
    seed: int | None = None,
    lost_after: timedelta | None = None,
) -> GenerationStrategy:
    """A generation strategy for Ax: first Sobol points, then optimisation with a ``TimeVaryingGP``.

    Time is a range parameter of the experiment; the caller fixes its value for each trial:
    ``client.get_next_trials(max_trials=1, fixed_parameters={"t": now})``. The model receives time
    untransformed, so rates of change are per unit of time; other parameters are scaled as in Ax.

    Args:
        time_parameter: Name of the time parameter.
        forgetting: The argument ``forgetting`` of :class:`TimeVaryingGP`; ``Markov`` if None.
        learn_forgetting: Whether the rates of ``forgetting`` are learned from the data.
        width: Width of the confidence bound that is the acquisition function; outcomes are
            standardised. The acquisition function is the upper confidence bound if the objective is
            maximised, and the lower confidence bound if the objective is minimised. If ``width`` is
            None, the acquisition function is noisy expected improvement at the present time, in the
            variant that Ax selects for single or multiple objectives.
        initialization_trials: Number of initial Sobol points, at least 1; attached trials count.
        seed: Seed of the Sobol sequence.
        lost_after: As in :func:`~botorch_tv.ax.adaptive.adaptive_generation_strategy`.

    Returns:
        A strategy for ``client.set_generation_strategy``.

    Raises:
        ValueError: If ``time_parameter`` is empty, if ``initialization_trials`` is below 1, or if
            the model does not support ``forgetting``.

    Example:
        >>> client.set_generation_strategy(
        ...     time_varying_generation_strategy("t", forgetting=Markov(epsilon=0.03))
        ... )
        >>> trials = client.get_next_trials(max_trials=1, fixed_parameters={"t": now})
    """
    initialization_trials = require_integer(
        "initialization_trials", initialization_trials, 1, "the model needs data."
    )
    if lost_after is not None:
        require_duration("lost_after", lost_after)
    config = time_varying_model_config(time_parameter, forgetting, learn_forgetting)
    clock = {"Clock": {"time_parameter": time_parameter, "lost_after": lost_after}}
    bayesian: dict[str, Any] = {
        "surrogate_spec": SurrogateSpec(model_configs=[config]),
        "acquisition_class": PresentAcquisition,
        "transforms": [Clock, *MBM_X_trans, *OUTCOME_TRANSFORMS],
        "transform_configs": {**clock, "Derelativize": {"use_raw_status_quo": True}},
    }
    if width is not None:
        bayesian["botorch_acqf_class"] = UpperConfidenceBound
        bayesian["acquisition_options"] = {"width": width}
    random = {"seed": seed, "transforms": [Clock, *RANDOM_TRANSFORMS], "transform_configs": clock}
    # The model replaces the Sobol points as soon as ``initialization_trials`` trials are suggested
    # or attached, and half of this number are measured.
    enough = [
        MinTrials(
            threshold=initialization_trials,
            transition_to="TimeVarying",
            not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
            use_all_trials_in_exp=True,
        ),
        MinTrials(
            threshold=(initialization_trials + 1) // 2,
            transition_to="TimeVarying",
            only_in_statuses=[TrialStatus.COMPLETED],
            use_all_trials_in_exp=True,
            count_only_trials_with_data=True,
        ),
    ]
    sobol = GenerationNode(
        name="Sobol",
        generator_specs=[GeneratorSpec(generator_enum=Generators.SOBOL, generator_kwargs=random)],
        transition_criteria=enough,
        should_deduplicate=True,
        suggested_experiment_status=ExperimentStatus.INITIALIZATION,
    )
    present = GenerationNode(
        name="TimeVarying",
        generator_specs=[
            GeneratorSpec(generator_enum=Generators.BOTORCH_MODULAR, generator_kwargs=bayesian)
        ],
        should_deduplicate=True,
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )
    return GenerationStrategy(name="Sobol+TimeVaryingGP", nodes=[sobol, present])


# ---------------- storage of generation strategies by Ax

VALUES: tuple[type[Any], ...] = tuple(
    kind
    for module in (forgetting, acquisition)
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind)
)
"""Types of the frozen dataclasses that a generation strategy may contain."""


def label(kind: type[Any]) -> str:
    """The name under which Ax saves a class of this package; no class of Ax has this name."""
    return f"botorch_tv.{kind.__name__}"


def encode(value: Any) -> dict[str, Any]:
    """A dataclass as JSON-compatible data, in the format that Ax stores."""
    retained = {field.name: getattr(value, field.name) for field in fields(value)}
    return {"__type": label(type(value)), **retained}


def encode_node(node: AdaptiveNode) -> dict[str, Any]:
    """A node as JSON-compatible data; its model is recomputed from the experiment."""
    names = ("time_parameter", "initialization_trials", "seed", "lost_after")
    own = {name: getattr(node, name) for name in names} | node._wishes._asdict()
    require(not callable(own["move_cost"]), "a file has no functions; give move_cost numbers.")
    return {"__type": label(AdaptiveNode)} | own


def register() -> None:
    """Enable Ax to save and load time-varying strategies; repeated calls are harmless."""
    register_model(TimeVaryingGP)
    register_acquisition(PresentAcquisition)
    for function in (
        UpperConfidenceBound,
        qKnowledgeGradientAtPresent,
        qLogNoisyExpectedHypervolumeImprovementAtPresent,
        qLogNoisyExpectedImprovementAtPresent,
        qLogNParEGOAtPresent,
    ):
        register_acquisition_function(function)
    register_transform(Clock)
    CORE_ENCODER_REGISTRY[AdaptiveNode] = encode_node
    CORE_DECODER_REGISTRY[label(AdaptiveNode)] = AdaptiveNode
    CORE_ENCODER_REGISTRY[timedelta] = lambda value: {
        "__type": label(timedelta),
        "seconds": value.total_seconds(),
    }
    CORE_DECODER_REGISTRY[label(timedelta)] = timedelta
    for kind in VALUES:
        CORE_ENCODER_REGISTRY[kind] = encode
        CORE_DECODER_REGISTRY[label(kind)] = kind
