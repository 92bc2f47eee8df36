"""PyTorch's modes: what a strategy computes has no gradients, and is never an inference tensor.

A state made under ``torch.inference_mode()`` could not be used outside, nor could an acquisition
function be climbed inside, which takes derivatives by points.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")


def without_gradients(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function under ``no_grad``, outside any inference mode."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


def outside_inference_mode(function: Callable[P, R]) -> Callable[P, R]:
    """Run a function with gradients as the caller has them, but outside any inference mode."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if not torch.is_inference_mode_enabled():
            return function(*args, **kwargs)
        with torch.inference_mode(False), torch.no_grad():
            return function(*args, **kwargs)

    return wrapped


def writes(*tensors: Tensor) -> int:
    """How often anybody has written into some tensors; it rises with every time.

    Inference tensors do not count, for outside of their mode nobody can write into them.
    """
    return sum(one._version for one in tensors if not one.is_inference())
