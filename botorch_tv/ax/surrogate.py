"""How Ax builds a ``TimeVaryingGP``: which column is time, which is not scaled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ax.core.search_space import SearchSpaceDigest
from ax.exceptions.core import UserInputError
from ax.generators.torch.botorch_modular.surrogate import (
    Surrogate,
    _submodel_input_constructor_base,
    submodel_input_constructor,
)
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import _DefaultType

from botorch_tv.models import TimeVaryingGP
from botorch_tv.models.time_varying_gp import Forgetting, separate


def time_varying_model_config(
    time_parameter: str, forgetting: Forgetting = None, learn_forgetting: bool = True
) -> ModelConfig:
    """The model config that makes Ax's ``SurrogateSpec`` use a ``TimeVaryingGP`` per outcome.

    Args:
        time_parameter: Name of the parameter that is time.
        forgetting: As for :class:`TimeVaryingGP`; rates count per unit of ``time_parameter``.
        learn_forgetting: Whether fitting changes it.

    Raises:
        ValueError: If ``forgetting`` is none that the model knows.
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
    """Arguments of the model, given what Ax knows.

    As for Ax's own models, but for the column of time: ``time_parameter`` among the options finds
    it by name (``time_dim`` by number), and Ax's default scaling to the unit cube leaves it out.

    Args:
        botorch_model_class: The model.
        model_config: Its options.
        dataset: Its training data.
        search_space_digest: Bounds and names of the columns.
        surrogate: Whose model it is.

    Raises:
        UserInputError: If the time parameter is none of the columns.
    """
    options = dict(model_config.model_options)
    names = list(dataset.feature_names)
    name = options.pop("time_parameter", None)
    if name is not None:
        if name not in names:
            raise UserInputError(
                f"time_parameter is {name!r}, but the model has the columns {names}; name one."
            )
        options["time_dim"] = names.index(name)
    config = replace(model_config, model_options=options)
    if isinstance(config.input_transform_classes, _DefaultType):
        time = options.get("time_dim", -1) % len(names)
        space = [column for column in range(len(names)) if column != time]
        config.input_transform_classes = [Normalize]
        config.input_transform_options = {"Normalize": {"indices": space}}
    inputs: dict[str, Any] = _submodel_input_constructor_base(
        botorch_model_class,
        model_config=config,
        dataset=dataset,
        search_space_digest=search_space_digest,
        surrogate=surrogate,
    )
    return inputs
