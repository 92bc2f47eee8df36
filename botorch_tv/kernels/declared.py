"""The declared parameters of a decay or an inflation in GPyTorch modules, and kernels in batches.

``Kernel.expand_batch`` and ``Kernel.__getitem__`` of GPyTorch have two defects. One
defect is that ``expand_batch`` and ``__getitem__`` treat the buffer of ``active_dims`` as if it had
batch dimensions. The other defect occurs if a factor of a kernel has an empty batch shape: an
index is applied to this factor before its batch shape is expanded. To avoid the two defects,
the kernels of this package use the methods of :class:`BatchedKernel`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import Kernel
from gpytorch.priors import Prior
from torch import Size, Tensor, nn

from botorch_tv.forgetting import Decay, Inflation, Parameter
from botorch_tv.forgetting.base import with_values
from botorch_tv.forgetting.formulas import require_learnable
from botorch_tv.validation import require

LARGEST_CHANGE = 13.0
"""Largest -ln(1 - ε) or -ln γ per unit of time; e^(-13) exceeds 1e-6, the lower bound of 1 - ε and
γ."""

Priors = Mapping[str, Prior | _DefaultType | None]


class OutOfBoundsError(ValueError, RuntimeError):
    """Raised when a parameter is set to a value outside its bounds.

    The error is also a RuntimeError, because BoTorch catches a RuntimeError and then draws from the
    prior again.
    """


class Declared(Module):  # type: ignore[misc]
    """A module with an attribute ``x`` and a raw parameter ``raw_x`` for each declared parameter.

    A parameter has four values:

    - the raw value, a ``torch`` parameter, which an optimiser changes;
    - the learned value, :meth:`learned`: the raw value after the transform of its bounds, counted
      per unit of time ``unit``;
    - the value, ``x`` or :meth:`value`: the learned value, counted per unit of time of the input;
    - the natural value, :meth:`natural`, such as -ln(1 - ε) for ε: proportional to a power of the
      unit of time, and accurate where the value rounds to 1.

    Learned value and value are equal until :meth:`measure` or :meth:`listen` changes ``unit``.
    Priors and bounds of the user apply to the value; bounds of the user also fix ``unit`` at 1.
    """

    part: Any
    """The decay or the inflation, with the initial values of the parameters."""
    _declared: dict[str, Parameter]
    unit: Tensor
    """The raw parameters' unit of time, in the input's unit of time, `batch_shape x 1 (x 1)`."""

    def declare(
        self,
        part: Decay | Inflation,
        batch_shape: Size,
        trailing: int,
        priors: Priors,
        bounds: Mapping[str, Interval | None],
        unit: Tensor | None = None,
        learn: bool = True,
    ) -> None:
        """Register the parameters of a formula.

        Args:
            part: The formula, with the initial values of its parameters.
            batch_shape: Batch shape of the parameters.
            trailing: Number of dimensions of size 1 after the batch shape.
            priors: Priors by parameter name, for values in the input's unit of time. None removes a
                prior; a parameter without an entry has its declared prior.
            bounds: Bounds by parameter name, for values in the input's unit of time. A parameter
                without an entry has its declared bounds.
            unit: Initial unit of time, as for :meth:`measure`; required if initial values are
                within the bounds only in this unit.
            learn: Whether to register parameters; otherwise the formula is fixed.

        Raises:
            ValueError: If the formula is not a function of the parameters that it declares, or if
                the name of a parameter is taken.
        """
        if learn and part.parameters:
            require_learnable(part)
        shape = Size([*batch_shape, *[1] * trailing])
        self.part = copy.deepcopy(part)
        self._declared = dict(part.parameters) if learn else {}
        self._trailing = trailing
        self._measurable = not any(bounds.values())
        self.register_buffer("unit", torch.ones(shape))
        if unit is not None and self._measurable and learn:
            self.unit = self._fitting(unit)
        for name, parameter in self._declared.items():
            require(
                not hasattr(type(self), name),
                f"{type(part).__name__} declares the parameter {name}, which is an attribute of "
                f"every {type(self).__name__}; give it another name, such as time_{name}.",
            )
            raw = f"raw_{name}"
            self.register_parameter(raw, torch.nn.Parameter(torch.zeros(shape)))
            usual = GreaterThan(parameter.lower, transform=None)
            if parameter.upper < torch.inf:
                usual = Interval(parameter.lower, parameter.upper, transform=None)
            self.register_constraint(raw, bounds.get(name) or usual)
            prior = priors.get(name, DEFAULT)
            chosen = prior != DEFAULT
            if not chosen:
                prior = copy.deepcopy(parameter.beside_scale or parameter.prior)
            if prior is not None:
                get, put = (partial(each, name=name, chosen=chosen) for each in (_get, _put))
                self.register_prior(f"{name}_prior", prior, get, put)
        self.restart()

    def __getattr__(self, name: str) -> Any:
        """A declared parameter's value in the input's unit of time, `batch_shape x 1 (x 1)`."""
        if name in vars(self).get("_declared", ()):
            return self.value(name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; a declared parameter is set in the input's unit of time."""
        if name in vars(self).get("_declared", ()):
            self.set_value(name, value)
        else:
            super().__setattr__(name, value)

    def restart(self) -> None:
        """Set the parameters to their initial values, in their present dtype.

        If a module was created in float32 and then moved to float64, this method removes the
        rounding errors of its parameters.
        """
        for name in self._declared:
            self.set_value(name, getattr(self.part, name))

    def learned(self) -> dict[str, Tensor]:
        """Values of the parameters in the unit of time ``unit``, each `batch_shape x 1 (x 1)`."""
        raws = {name: (getattr(self, f"raw_{name}"), self._bounds(name)) for name in self._declared}
        return {name: bounds.transform(raw) for name, (raw, bounds) in raws.items()}

    def value(self, name: str) -> Tensor:
        """A parameter's value in the input's unit of time, `batch_shape x 1 (x 1)`.

        A fraction lost per unit of time, such as ε, rounds to 1 if the unit is long;
        :meth:`natural` is accurate even then.

        Args:
            name: Name of the parameter.
        """
        learned = self.learned()
        return self._declared[name].counted(learned[name], 1 / self.unit, learned)

    def natural(self, name: str) -> Tensor:
        """The natural value of a parameter, `batch_shape x 1 (x 1)`.

        The natural value is -ln(1 - ε) for a parameter that is a fraction lost, such as ε; -ln γ
        for a fraction retained, such as γ; and the value itself for any other parameter. The
        natural value of a parameter is proportional to a power of the unit of time.

        Args:
            name: Name of the parameter.
        """
        learned = self.learned()
        return self._declared[name].natural_counted(learned[name], 1 / self.unit, learned)

    def current(self) -> Any:
        """The formula with the present values of its parameters, in the input's unit of time.

        Returns:
            The decay or the inflation; its values are numbers, or tensors of the batch shape.

        Raises:
            ValueError: If a parameter that is a fraction rounds to 0 or 1, because the input's unit
                of time is too long.
        """
        for name, parameter in self._declared.items():
            value = self.value(name).detach()
            outside = (value < parameter.lower) | (value > parameter.upper)
            require(
                parameter.share is None or not bool((outside & (self.unit != 1)).any()),
                f"{name} rounds to {value.max():g} per unit of time of the input; measure time in "
                "a shorter unit.",
            )
        return with_values(self.part, {name: self._plain(name) for name in self._declared})

    def extra_repr(self) -> str:
        """The formula with the present values of its parameters."""
        return repr(with_values(self.part, {name: self._plain(name) for name in self._declared}))

    def _plain(self, name: str) -> float | Tensor:
        """A parameter's value without trailing dimensions; a number if there is no batch shape."""
        value = self.value(name).detach()
        value = value.reshape(value.shape[: -self._trailing])
        return value if value.dim() else float(value)

    def set_value(self, name: str, value: Tensor | float) -> None:
        """Set a parameter's value in the input's unit of time; other parameters do not change.

        Args:
            name: Name of the parameter.
            value: New value, a number or broadcastable with `batch_shape x 1 (x 1)`.

        Raises:
            OutOfBoundsError: If the value lies outside its bounds.
        """
        self._set_over(name, torch.ones_like(self.unit), like(value, self.unit))

    def measure(self, unit: Tensor) -> None:
        """Change the unit of time in which parameters are learned, and clip values to their bounds.

        Args:
            unit: The new unit, in the input's unit of time, positive, `batch_shape`; see
                ``median_gap``. If the module has no batch shape, it uses the median of the given
                units.
        """
        if self._measurable:
            self._move(self._fitting(unit))

    def listen(self, unit: Tensor) -> None:
        """Replace values without a gradient by ``fast_start``, and change the unit of time.

        A value has no gradient if it makes consecutive observations uncorrelated.

        Args:
            unit: The time between observations, `batch_shape`, as for :meth:`measure`.
        """
        if not self._measurable:
            return
        step = self._fitting(unit)
        learned = {name: value.detach() for name, value in self.learned().items()}
        for name, value in learned.items():
            parameter = self._declared[name]
            if parameter.uncorrelated_beyond is None or parameter.fast_start is None:
                continue
            natural = parameter.natural_counted(value, step / self.unit, learned)
            start = torch.full_like(value, parameter.number(parameter.fast_start))
            start = parameter.value(start * parameter.stretch(self.unit / step, learned))
            uncorrelated = natural > parameter.number(parameter.uncorrelated_beyond)
            self._put(name, torch.where(uncorrelated, start, value))
        self._move(step)

    def _bounds(self, name: str) -> Interval:
        return getattr(self, f"raw_{name}_constraint")

    def _fitting(self, unit: Tensor) -> Tensor:
        """A unit for each member of the batch, in the shape of the parameters."""
        unit, shape = like(unit, self.unit), self.unit.shape[: -self._trailing]
        if torch.broadcast_shapes(unit.shape, shape) != shape:  # type: ignore[no-untyped-call]
            unit = unit.median()
        return unit[(..., *[None] * self._trailing)].expand(self.unit.shape).clone()

    def _move(self, unit: Tensor, but: str = "") -> None:
        """Change the unit of time; a unit in which a parameter such as ε rounds to 1 is shortened.

        The parameter named ``but`` has no influence on the unit.
        """
        for name in self._declared:
            if name != but and self._declared[name].share is not None:
                unit = _no_longer(unit, self.natural(name).detach())
        learned = {name: value.detach() for name, value in self.learned().items()}
        factor, self.unit = unit / self.unit, unit.clone()
        for name, value in learned.items():
            self._put(name, self._declared[name].counted(value, factor, learned))

    def _set_over(self, name: str, duration: Tensor, value: Tensor) -> None:
        """Set a parameter to its value over a given duration."""
        parameter, bounds = self._declared[name], self._bounds(name)
        learned = {key: value.detach() for key, value in self.learned().items()}
        checked, held = value, self.unit.median()
        if parameter.share is None:
            checked = parameter.counted(value, self.unit / duration, learned)
        # Values and bounds are compared in single precision, because bounds are created before a
        # module is moved to float64.
        low, high, single = bounds.lower_bound.float(), bounds.upper_bound.float(), checked.float()
        good = (single >= low) & (single <= high) & checked.isfinite()
        if not bool(good.all()):
            raise OutOfBoundsError(
                f"{type(self).__name__}: {name} is {checked[~good].flatten()[0].item():g} over "
                f"{held:g} units of time, the unit in which it is learned. This value is out "
                f"of bounds of its current constraints, {low.min():g} to {high.min():g}; start "
                "within these bounds, or give other bounds."
            )
        bound_to_it = {
            key: self.value(key).detach()
            for key in self._declared
            if key != name and callable(self._declared[key].power)
        }
        if parameter.share is not None and self._measurable:
            natural = parameter.natural(value) / duration
            self._move(torch.where(self.unit == 1, 1.0, _no_longer(self.unit, natural)), name)
        self._put(name, parameter.counted(value, self.unit / duration, learned))
        for key, other in bound_to_it.items():
            self.set_value(key, other)

    def _put(self, name: str, learned: Tensor) -> None:
        bounds = self._bounds(name)
        value = learned.clamp(bounds.lower_bound, bounds.upper_bound)
        self.initialize(**{f"raw_{name}": bounds.inverse_transform(value)})


def _no_longer(unit: Tensor, natural: Tensor) -> Tensor:
    # The absolute value is used, because a limit divided by -0 would be negative.
    return torch.minimum(unit, LARGEST_CHANGE / natural.abs()).expand_as(unit)


# Getters and setters of priors are named functions, because lambdas cannot be pickled.


def _get(module: Declared, *, name: str, chosen: bool) -> Tensor:
    value = module.value(name) if chosen else module.learned()[name]
    return module._declared[name].prior_quantity(value)


def _put(module: Declared, value: Tensor | float, *, name: str, chosen: bool) -> None:
    quantity = module._declared[name].prior_quantity(like(value, module.unit))
    (module.set_value if chosen else module._put)(name, quantity)


# ---------------------------------------------------------------- kernels in batches


def _own(kernel: nn.Module) -> list[tuple[Kernel, Tensor, int]]:
    """Every tensor in a tree of kernels, with its kernel and its number of batch dimensions."""
    found = []
    for module in kernel.modules():
        if isinstance(module, Kernel):
            full = module.batch_shape
            named = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
            for tensor in (tensor for name, tensor in named if name != "active_dims"):
                # A ``ScaleKernel`` takes over the batch shape of its base kernel implicitly.
                shape = full if tensor.shape[: len(full)] == full else module._batch_shape
                found.append((module, tensor, len(shape)))
    return found


def like(value: Tensor | float, other: Tensor) -> Tensor:
    """A number as a new tensor of the dtype and device of ``other``, without float32 rounding.

    The result is a copy, because a caller's tensor, such as a clock, may change in place.
    """
    made = torch.as_tensor(value, dtype=other.dtype, device=other.device)
    return made if isinstance(value, float) else made.clone()


class BatchedKernel(Kernel):  # type: ignore[misc]
    """A kernel whose batch shape can be expanded and indexed, whatever kernels it contains."""

    def expand_batch(self, *sizes: Any) -> Self:
        """A copy with every parameter expanded to a batch shape.

        Args:
            sizes: The batch shape, as a ``torch.Size`` or as integers; the batch shape of the
                kernel must broadcast to it.

        Raises:
            RuntimeError: If the batch shape of the kernel does not broadcast to the given batch
                shape.
        """
        given = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
        target = torch.Size(given)
        if target == self.batch_shape:
            return self
        expanded = copy.deepcopy(self)
        for kernel, tensor, dims in _own(expanded):
            tensor.data = tensor.data.expand(target + tensor.shape[dims:])
            kernel.batch_shape = target
        return expanded

    def __getitem__(self, index: Any) -> Self:
        """The kernel for some members of the batch; ``index`` applies to the batch dimensions."""
        if len(self.batch_shape) == 0:
            return self
        index = index if isinstance(index, tuple) else (index,)
        batch_shape = self.batch_shape
        chosen = torch.empty((), device="cpu").expand(batch_shape)[index].shape
        indexed = copy.deepcopy(self)
        for kernel, tensor, dims in _own(indexed):
            tensor.data = tensor.data.expand(batch_shape + tensor.shape[dims:])[index]
            kernel.batch_shape = chosen
        return indexed
