"""Kernels whose rate per unit of time is learned in a unit of the data's own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from botorch_tv.kernels.batching import BatchedKernel, like

DEAF = 0.9
"""Share of the objective that is new at the next observation, above which slopes are lost."""
RESTLESS = 0.1
"""Share from which a search starts instead."""


class RateKernel(BatchedKernel):
    """A temporal kernel with a rate of change.

    The raw parameter is the rate over ``unit``; what the user sees is the rate per unit of the
    input. Both are the same until :meth:`measure` is called.
    """

    unit: Tensor
    """The unit of time of the raw parameter, in units of the input, `batch_shape x 1 x 1`."""

    def __init__(
        self, batch_shape: torch.Size | None = None, active_dims: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(batch_shape=batch_shape, active_dims=active_dims)
        self.register_buffer("unit", torch.ones(*self.batch_shape, 1, 1))

    @abstractmethod
    def measure(self, unit: Tensor) -> None:
        """Learn the rate in another unit of time from now on; its value stays.

        Priors of one's own and bounds of one's own hold per unit of the input all the same; with
        the latter the unit stays as well.

        Args:
            unit: In units of the input, positive, `batch_shape`; see ``median_gap``. Where the
                kernel has no batch to hold them, their median.
        """

    @abstractmethod
    def listen(self, unit: Tensor) -> None:
        """Move a rate from which no search finds away to where one does.

        So large a rate leaves nothing of one observation at the next, and no slope to follow.

        Args:
            unit: The time from one observation to the next, as for :meth:`measure`.
        """

    def _ends(self, name: str) -> tuple[Tensor, Tensor]:
        """Bounds of a raw parameter."""
        constraint = getattr(self, f"{name}_constraint")
        return constraint.lower_bound, constraint.upper_bound

    def _fitting(self, unit: Tensor) -> Tensor:
        """A unit for each member of the batch, `batch_shape x 1 x 1`."""
        unit = like(unit, self.unit)
        shape = self.batch_shape
        if torch.broadcast_shapes(unit.shape, shape) != shape:  # type: ignore[no-untyped-call]
            unit = unit.median()
        return unit[..., None, None].expand(*shape, 1, 1).clone()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # What was saved without a unit was learned in that of the input.
        state_dict.setdefault(prefix + "unit", torch.ones_like(self.unit))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
