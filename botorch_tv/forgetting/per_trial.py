"""A decay with each trial's own values, in each trial's own unit of time."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Size, Tensor

from botorch_tv.forgetting.decay import Decay
from botorch_tv.forgetting.parameter import Values, with_values


@dataclass(frozen=True, eq=False)
class PerTrial(Decay):
    """What has been learned of a decay.

    Args:
        decay: The formula.
        values: Of all parameters that it declares, over ``unit``, `batch_shape` each.
        unit: Units of time in which values are of ordinary size, `batch_shape`.
    """

    decay: Decay
    values: Values
    unit: Tensor

    @property
    def markovian(self) -> bool:  # type: ignore[override]
        return self.decay.markovian

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        dims = max(first.dim(), second.dim())
        unit = _leading(self.unit, dims)
        values = {name: _leading(value, dims) for name, value in self.values.items()}
        return with_values(self.decay, values).covariance(first / unit, second / unit)

    def value(self, name: str) -> Tensor:
        """A parameter per unit of time as it is told, `batch_shape`.

        Where that unit is long, a share lost is 1 to all digits; ask :meth:`natural` then.
        """
        return self.decay.parameters[name].counted(self.values[name], 1 / self.unit, self.values)

    def natural(self, name: str) -> Tensor:
        """The same as what is proportional to a power of the unit: -ln(1 - ε), -ln γ, or itself."""
        parameter = self.decay.parameters[name]
        return parameter.natural_counted(self.values[name], 1 / self.unit, self.values)

    def reshaped(self, batch_shape: Size) -> PerTrial:
        """The same for trials in another order of dimensions."""
        values = {name: value.view(batch_shape) for name, value in self.values.items()}
        return PerTrial(self.decay, values, self.unit.view(batch_shape))


def _leading(parameter: Tensor, dims: int) -> Tensor:
    """A number per trial, beside tensors that lead with the trials."""
    return parameter.view((*parameter.shape, *[1] * (dims - parameter.dim())))
