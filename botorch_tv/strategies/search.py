"""How the best point of a box is found, for many trials at once."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition.exploration import TIE_TOLERANCE
from botorch_tv.inference.linalg import first_maximum
from botorch_tv.inference.quasi_newton import minimize
from botorch_tv.inference.scratch import Scratch
from botorch_tv.validation import require_integer

if TYPE_CHECKING:
    from botorch_tv.strategies.box import Box
    from botorch_tv.strategies.draws import Draws

Score = Callable[[Tensor, Tensor | None], Tensor]
"""Scores points, `trials x q x d -> trials x q`, differentiably. The second argument names the
trials that the points belong to, None for all."""

BLOCK_NUMBERS = 2**22
"""Numbers in the largest matrix of a block of raw samples."""


