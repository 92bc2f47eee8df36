"""What Ax needs to know to save and load a time-varying experiment."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ax.storage.botorch_modular_registry import (
    register_acquisition,
    register_acquisition_function,
    register_model,
)
from ax.storage.json_store.registry import CORE_DECODER_REGISTRY, CORE_ENCODER_REGISTRY
from ax.storage.transform_registry import register_transform
from botorch.acquisition import UpperConfidenceBound

from botorch_tv import acquisition, forgetting
from botorch_tv.acquisition.present import (
    qKnowledgeGradientAtPresent,
    qLogNoisyExpectedImprovementAtPresent,
)
from botorch_tv.ax.adaptive import AdaptiveNode
from botorch_tv.ax.surrogate import Clock, PresentAcquisition
from botorch_tv.models import TimeVaryingGP

VALUES: tuple[type[Any], ...] = tuple(
    kind
    for module in (forgetting, acquisition)
    for kind in vars(module).values()
    if isinstance(kind, type) and is_dataclass(kind)
)
"""Frozen dataclasses that a generation strategy may contain."""


def label(kind: type[Any]) -> str:
    """The name under which a class is saved, which no class of Ax has."""
    return f"botorch_tv.{kind.__name__}"


def encode(value: Any) -> dict[str, Any]:
    """A dataclass as Ax writes it."""
    kept = {field.name: getattr(value, field.name) for field in fields(value)}
    return {"__type": label(type(value)), **kept}


def encode_node(node: AdaptiveNode) -> dict[str, Any]:
    """A node as Ax writes it; what it learned is recomputed from the experiment."""
    names = ("time_parameter", "initialization_trials", "seed")
    return {"__type": label(AdaptiveNode)} | {name: getattr(node, name) for name in names}


def register() -> None:
    """Register with Ax how time-varying strategies are saved and loaded; may be repeated."""
    register_model(TimeVaryingGP)
    register_acquisition(PresentAcquisition)
    for function in (
        UpperConfidenceBound,
        qKnowledgeGradientAtPresent,
        qLogNoisyExpectedImprovementAtPresent,
    ):
        register_acquisition_function(function)
    register_transform(Clock)
    CORE_ENCODER_REGISTRY[AdaptiveNode] = encode_node
    CORE_DECODER_REGISTRY[label(AdaptiveNode)] = AdaptiveNode
    for kind in VALUES:
        CORE_ENCODER_REGISTRY[kind] = encode
        CORE_DECODER_REGISTRY[label(kind)] = kind
