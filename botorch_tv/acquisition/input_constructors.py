"""What BoTorch and Ax need to build our acquisition functions from a dataset.

Importing this registers them with ``get_acqf_input_constructor``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from botorch.acquisition.input_constructors import (
    acqf_input_constructor,
    construct_inputs_qKG,
    construct_inputs_qLogNEI,
)
from botorch.acquisition.logei import TAU_MAX, TAU_RELU
from botorch.acquisition.objective import MCAcquisitionObjective, PosteriorTransform
from botorch.models.model import Model
from botorch.sampling.base import MCSampler
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_tv.acquisition.placement import Placement
from botorch_tv.acquisition.present import (
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
)


@acqf_input_constructor(qLogNoisyExpectedImprovementAtPresent)  # type: ignore[untyped-decorator]
def construct_inputs_noisy_improvement(
    model: Model,
    training_data: SupervisedDataset | dict[Hashable, SupervisedDataset],
    objective: MCAcquisitionObjective | None = None,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
    sampler: MCSampler | None = None,
    X_baseline: Tensor | None = None,
    prune_baseline: bool = True,
    cache_root: bool | None = None,
    constraints: list[Callable[[Tensor], Tensor]] | None = None,
    eta: Tensor | float = 1e-3,
    fat: bool = True,
    tau_max: float = TAU_MAX,
    tau_relu: float = TAU_RELU,
    incremental: bool = True,
    now: float | Tensor | None = None,
    time_dim: int | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`qLogNoisyExpectedImprovementAtPresent`, whose names these are.

    Args:
        model: The model.
        training_data: Where the baseline comes from, if it is not given.
        objective: See the class, as for all that follow.
        posterior_transform: See the class.
        X_pending: See the class.
        sampler: See the class.
        X_baseline: See the class.
        prune_baseline: See the class.
        cache_root: See the class.
        constraints: See the class.
        eta: See the class.
        fat: See the class.
        tau_max: See the class.
        tau_relu: See the class.
        incremental: See the class.
        now: The present; the ``now`` of the model where None.
        time_dim: Column of time; that of the model where None.
    """
    inputs: dict[str, Any] = construct_inputs_qLogNEI(
        model=model,
        training_data=training_data,
        objective=objective,
        posterior_transform=posterior_transform,
        X_pending=X_pending,
        sampler=sampler,
        X_baseline=X_baseline,
        prune_baseline=prune_baseline,
        cache_root=cache_root,
        constraints=constraints,
        eta=eta,
        fat=fat,
        tau_max=tau_max,
        tau_relu=tau_relu,
        incremental=incremental,
    )
    return {**inputs, "now": now, "time_dim": time_dim}


@acqf_input_constructor(qKnowledgeGradientAtPresent)  # type: ignore[untyped-decorator]
def construct_inputs_knowledge_gradient(
    model: Model,
    training_data: SupervisedDataset | dict[Hashable, SupervisedDataset],
    bounds: list[tuple[float, float]],
    objective: MCAcquisitionObjective | None = None,
    posterior_transform: PosteriorTransform | None = None,
    num_fantasies: int = 64,
    with_current_value: bool = False,
    now: float | Tensor | None = None,
    time_dim: int | None = None,
) -> dict[str, Any]:
    """Arguments of :class:`qKnowledgeGradientAtPresent`.

    Args:
        model: The model.
        training_data: The data, for their dtype and device.
        bounds: Lower and upper bound of each column, time included; its own do not matter.
        objective: See the class.
        posterior_transform: See the class.
        num_fantasies: Number of fantasies.
        with_current_value: Whether to find the highest posterior mean at the present and subtract
            it, so that values are gains.
        now: The present, a number; the ``now`` of the model where None.
        time_dim: Column of time; that of the model where None.
    """
    place = Placement.of(model, now, time_dim)
    inputs: dict[str, Any] = construct_inputs_qKG(
        model=model,
        training_data=training_data,
        bounds=bounds,
        objective=objective,
        posterior_transform=posterior_transform,
        num_fantasies=num_fantasies,
        with_current_value=with_current_value,
        fixed_features={place.time_dim: place.now},
    )
    return {**inputs, "now": now, "time_dim": time_dim}
