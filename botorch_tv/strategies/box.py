"""Boxes, and named parameters, which are mapped to the coordinates of a unit cube."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.gp.box import BoxPrior, PointBasis, box_prior_at
from botorch_tv.gp.covariance import Inference
from botorch_tv.gp.point_kernel import formula
from botorch_tv.gp.point_recursion import in_features
from botorch_tv.gp.process import Process
from botorch_tv.gp.search import DiscreteSearch, MultiStart, Search, spread
from botorch_tv.gp.tensors import DeviceCopies, Rows, without_gradients
from botorch_tv.hints import hinted
from botorch_tv.strategies.domains import Domain, corners
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.parameters import BoxParameter, Choice, Float, Integer, Parameter, Space
from botorch_tv.strategies.state import State
from botorch_tv.validation import largest, plain, real, require, require_integer, shown


class Parameters(Space, Mapping[str, Parameter]):
    """Named parameters, mapped in the given order to the coordinates of a unit cube.

    Args:
        bounds: For each name, a :class:`Float`, an :class:`Integer`, a :class:`Choice`, or a tuple
            ``(low, high)`` for a float.

    Attributes:
        mixed: Whether any parameter is a :class:`Choice` without an order.

    Raises:
        InputDataError: If there are no parameters, if a name is not a string, or if the bounds of a
            parameter are of another type.
    """

    def __init__(self, bounds: Mapping[str, Parameter | tuple[float, float]]) -> None:
        if not bounds:
            raise InputDataError("no parameters are given; give {name: (low, high), ...}.")
        super().__init__({name: _as_parameter(name, bound) for name, bound in bounds.items()})
        numbers = [axis.number for axis in self.axes]
        self._stepped = [n for n, number in enumerate(numbers) if number and number.step]
        self.mixed = None in numbers

    def __getitem__(self, name: str) -> Parameter:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)

    def __repr__(self) -> str:
        return repr(self.by_name)

    def named(self, place: Tensor) -> dict[str, Any]:
        """The values of the parameters at a point of the cube, rounded to the stored digits.

        Args:
            place: Coordinates in the cube, `d`.
        """
        return {
            name: axis.rounded(value, place.dtype) if isinstance(axis, BoxParameter) else value
            for (name, value), axis in zip(self.params(place).items(), self.axes)
        }

    def place(self, point: object, like: Tensor, name: str = "X") -> Tensor:
        """The coordinates of a point in the cube, `d`.

        Args:
            point: A value for each parameter.
            like: A tensor of any shape with the dtype and the device of the result.
            name: Name of the point in error messages.

        Raises:
            InputDataError: If parameters are missing or unknown, if a value lies outside its range,
                or if the value of an integer is not whole.
        """
        if not isinstance(point, Mapping) or set(point) != set(self):
            given = list(point) if isinstance(point, Mapping) else shown(point)
            raise InputDataError(
                f"{name} is {given}, but it must have a value for each of the parameters "
                f"{', '.join(self)}, and no other; give "
                f"{{{', '.join(f'{key!r}: ...' for key in self)}}}."
            )
        values = {key: _value(key, kind, point[key], like.dtype) for key, kind in self.items()}
        return like.new_tensor(self.point(values))

    def from_uniform(self, U: Tensor) -> Tensor:
        """Map coordinates to the cube, `* x d`; integers and parameters with a step are rounded.

        If a coordinate is uniformly distributed and the scale of its parameter is linear, all
        values of an integer parameter, or of a parameter with a step, are equally probable.
        Rounding has gradient 0, which would stop every ascent. Therefore the gradient for such a
        parameter is defined as 1. Without rounding, it would be a constant above 1.

        Args:
            U: Coordinates, `* x d`, from 0 to 1. For a parameter with a step, coordinate 0 stands
                for ``low`` minus half a step, and coordinate 1 for ``high`` plus half a step.
        """
        columns = list(U.unbind(-1))
        for number in self._stepped:
            axis, (low, high), ends = self._ends(number)
            scaled = low + (high - low) * columns[number].detach()
            start = axis.low % axis.step
            steps = ((scaled.exp() if axis.log else scaled) - start) / axis.step
            value = (steps.round() * axis.step + start).clamp(axis.low, axis.high)
            place = ((value.log() if axis.log else value) - ends[0]) / (ends[1] - ends[0])
            columns[number] = place.clamp(0, 1) + (columns[number] - columns[number].detach())
        return torch.stack(columns, -1)

    def to_uniform(self, X: Tensor) -> Tensor:
        """The coordinates, `* x d`, that :meth:`from_uniform` maps to given points of the cube.

        The coordinate of an integer parameter, or of a parameter with a step, lies in the interval
        that :meth:`from_uniform` rounds to its value.

        Args:
            X: Points of the cube, `* x d`.
        """
        columns = list(X.unbind(-1))
        for number in self._stepped:
            _, (low, high), ends = self._ends(number)
            columns[number] = (ends[0] + (ends[1] - ends[0]) * columns[number] - low) / (high - low)
        return torch.stack(columns, -1)

    def data(self) -> dict[str, dict[str, Any]]:
        """The parameters as JSON-compatible data."""
        return {
            name: {"type": type(axis).__name__}
            | {
                key: value
                for key, value in asdict(axis).items()
                if key not in ("step", "ordered") or value != getattr(type(axis), key)
            }
            for name, axis in self.items()
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Mapping[str, Any]]) -> Parameters:
        """Inverse of :meth:`data`.

        Args:
            data: The type and the fields of each parameter, indexed by the parameter's name.

        Raises:
            KeyError, TypeError, ValueError, InputDataError: If ``data`` does not describe valid
                parameters.
        """
        kinds: dict[str, Callable[..., Parameter]]
        kinds = {"Float": Float, "Integer": Integer}
        kinds["Choice"] = lambda choices, ordered=False: Choice(*choices, ordered=ordered)
        own = {name: dict(fields) for name, fields in data.items()}
        return cls({name: kinds[fields.pop("type")](**fields) for name, fields in own.items()})

    def _ends(self, number: int) -> tuple[Any, tuple[float, float], tuple[float, float]]:
        """Three values for a parameter with a step: the parameter, an interval, and its range.

        Rounding maps the interval to the values of the range. Interval and range are logarithms if
        the scale of the parameter is logarithmic.
        """
        axis: Any = self.axes[number].number
        wide = axis.scaled(axis.low - axis.step / 2), axis.scaled(axis.high + axis.step / 2)
        return axis, wide, (axis.scaled(axis.low), axis.scaled(axis.high))


def _value(name: str, axis: Parameter, value: object, dtype: torch.dtype) -> Any:
    """A value of a parameter, converted to the form in which it is stored.

    Raises:
        InputDataError: If the parameter cannot have this value.
    """
    if isinstance(axis, Choice):
        try:
            return axis.choices[axis.index(plain(value))]
        except (ValueError, TypeError, ArithmeticError) as error:
            choices = ", ".join(map(repr, axis.choices))
            raise InputDataError(f"{name} is {shown(value)}; choose from {choices}.") from error
    found = real(value)
    number = math.nan if found is None else found
    # Values computed elsewhere may lie outside the range by rounding errors.
    inside = axis.low - 1e-9 * abs(axis.low) <= number <= axis.high + 1e-9 * abs(axis.high)
    step, nearest = axis.step, number
    if inside:
        nearest = axis.rounded(min(max(number, axis.low), axis.high), dtype)
        inside = step is None or math.isclose(number, nearest, rel_tol=1e-12, abs_tol=1e-9 * step)
    if not inside:
        fix = "change it, drop the point, or widen the bounds."
        if axis.log and number <= 0:
            fix = "a logarithmic scale has positive values only; drop the point, or give log=False."
        elif step is not None and axis.low <= number <= axis.high:
            fix = f"give {nearest:g}, or a Float without step, which takes every value."
        steps, whole = f" in steps of {step:g}" if step not in (None, 1) else "", type(step) is int
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be a {'whole ' * whole}number from "
            f"{axis.low:g} to {axis.high:g}{steps}; {fix}"
        )
    return nearest


def _as_parameter(name: object, bounds: object) -> Parameter:
    """A parameter of a box; its choices must be distinct and storable in a file."""
    if not isinstance(name, str) or not name:
        raise InputDataError(f"{name!r} is not a valid name of a parameter; give a string.")
    if isinstance(bounds, Choice):
        kinds, choices = (str, bool, int, float, type(None)), bounds.choices
        plain = all(type(choice) in kinds and choice == choice for choice in choices)
        if not plain or len({(type(one), one) for one in choices}) < max(2, len(choices)):
            raise InputDataError(
                f"{name} is {bounds!r}, but the choices must be two or more, all different, each a "
                "string, number, True, False or None; give each as an argument, Choice('a', 'b')."
            )
    if isinstance(bounds, Parameter):
        return bounds
    try:
        # Python's ranges and sets are refused: a range contains whole numbers, and a set has no
        # order.
        pair: Any = () if isinstance(bounds, (range, set)) else bounds
        low, high = pair
        return Float(low, high)
    except (TypeError, ValueError) as error:
        raise InputDataError(
            f"{name} is {shown(bounds)} ({error}); give (low, high) with low below high, "
            "Float(low, high, log=True), Integer(low, high) or Choice('a', 'b')."
        ) from error


Bounds = Tensor | Sequence[tuple[float, float]] | Mapping[str, Parameter | tuple[float, float]]
"""Bounds of a box: its corners `2 x d`, its ranges, or its named parameters."""

ROUNDING = 1e-9
"""Smallest tolerance for points outside a box, as a fraction of a range. The tolerance is larger in
float32, whose rounding errors are larger."""
MOST_LISTED = 1024
"""Largest number of points of named parameters that are listed."""
PROBES = 13
"""Number of points at which a kernel is evaluated, in addition to centre and corners."""


@hinted
class Box(Domain):
    """A continuous domain: all points between two corners, or all values of named parameters.

    Args:
        bounds: Lower and upper corner as a tensor, `2 x d`, as in BoTorch; or a list of ranges,
            ``[(low, high), ...]``, which are converted to float64; or named parameters in their own
            units, ``{"temperature": (20, 80), "rate": Float(1e-5, 0.1, log=True), "layers":
            Integer(1, 8), "kind": Choice("a", "b")}``. If the parameters are named, points lie in
            the unit cube, and lengthscales are fractions of the ranges. ``parameters.named``
            converts a point of the cube to named values, ``parameters.place`` converts back, and
            :class:`~botorch_tv.Loop` does both. A box with a :class:`Choice` supports one trial at
            a time.
        context_dim: Number c of context coordinates, such as the weather, which are given before
            each round and not chosen. In the input of the kernel, the context coordinates follow
            the d coordinates of the box. ``ask(context=...)`` requires the context.
        search: The method that maximises acquisition functions. The default is the gradient ascent
            :class:`~botorch_tv.strategies.MultiStart`.
            :class:`~botorch_tv.strategies.DiscreteSearch` restricts the choice to given points.

    Attributes:
        bounds: `2 x d`.

    Raises:
        InputDataError: If ``bounds`` is a tensor but not a finite floating-point `2 x d` tensor
            whose upper corner is above the lower corner. If ``bounds`` is a pair of lists, which
            could be two ranges or two corners. If the points of ``search`` lie outside the box, or
            if ``search`` does not support named parameters.
        ValueError: If ``context_dim`` is negative or not whole.

    Example:
        >>> domain = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    """

    @without_gradients
    def __init__(
        self, bounds: Bounds, *, context_dim: int = 0, search: Search | None = None
    ) -> None:
        self.parameters = Parameters(bounds) if isinstance(bounds, Mapping) else None
        if self.parameters is not None:  # named parameters are modelled in the unit cube
            zeros = torch.zeros(2, self.parameters.columns, dtype=torch.float64, device="cpu")
            bounds = zeros + torch.arange(2, device="cpu").unsqueeze(-1)
        self.bounds = corners("Box: bounds", bounds).detach().clone()
        _require_extent(self.bounds, self.bounds.dtype)
        self.context_dim = require_integer("Box: context_dim", context_dim, 0, "0 for none.")
        self.dim, self.device = self.bounds.shape[1], self.bounds.device
        self.columns = self.dim + self.context_dim
        if self.parameters is not None and self.parameters.mixed and search is None:
            search = MixedSearch(self.parameters)
        elif self.parameters is not None:
            require(
                search is None or (isinstance(search, MultiStart) and not self.parameters.mixed),
                f"Box: search is {search!r}, but named parameters are searched by MultiStart or, "
                "if a parameter is a Choice, by a built-in search; omit search, or give bounds as "
                "a tensor 2 x d.",
            )
        self.search = MultiStart() if search is None else search
        self.search.check(self)
        self._in_features: dict[tuple[object, ...], PointBasis | str] = {}

    def __getstate__(self) -> dict[str, object]:
        """The state to pickle, without cached features of kernels."""
        return {**self.__dict__, "_in_features": {}}

    def __repr__(self) -> str:
        ranges = " x ".join(f"[{low:g}, {high:g}]" for low, high in self.bounds.T.tolist())
        ranges = ranges if self.parameters is None else repr(self.parameters)
        context = f", context_dim={self.context_dim}" if self.context_dim else ""
        return f"Box({ranges}{context})"

    def prior(self, kernel: Kernel | Tensor, inference: Inference, like: Tensor) -> BoxPrior:
        _require_extent(self.bounds, like.dtype)
        return box_prior_at(self.probe(like.dtype, like.device), kernel)

    def in_features(
        self, process: Process, box_prior: BoxPrior, tolerance: float, most: int
    ) -> PointBasis | str:
        """The cached result of :func:`~botorch_tv.gp.point_recursion.in_features` for this box.

        Args:
            process: The process whose posterior is computed.
            box_prior: The prior on this box.
            tolerance: Largest allowed error of the features.
            most: Largest number of features.

        Returns:
            The features, or a sentence that states why the kernel has none.
        """
        text = formula(box_prior.kernel)
        like = box_prior.variance
        key = (text, process.noise, tolerance, most, like.dtype, like.device)
        found = None if text is None else self._in_features.get(key)
        if found is None:
            corners = self._corners.like(like)
            found = in_features(process, box_prior, corners, tolerance=tolerance, most=most)
            if text is not None:
                self._in_features[key] = found
        return found

    def probe(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Points at which kernels are checked: centre, corners and some points between, `q x d`.

        Args:
            dtype: Dtype of the points.
            device: Device of the points.
        """
        points = torch.zeros(3 + PROBES, self.columns, dtype=dtype, device=device)
        points[0, : self.dim] = self.center(points)
        points[1:3, : self.dim] = self._corners.like(points)
        points[3:, : self.dim] = self.from_unit(spread(PROBES, self.dim).like(points))
        return points

    def no_choices(self, batch_shape: Size, like: Tensor) -> Rows:
        return Rows.empty(batch_shape, (self.columns,), dtype=like.dtype, device=like.device)

    def locate(self, X: Tensor) -> Tensor:
        self.require_inside(X[..., : self.dim])
        if self.context_dim and not bool(X.isfinite().all()):
            raise InputDataError("X has a context that is NaN or infinite; use finite numbers.")
        return X

    def points(self, choice: Tensor, like: Tensor) -> Tensor:
        return choice

    def from_unit(self, U: Tensor) -> Tensor:
        """Map points of the unit cube to this box, `* x d`.

        Values of integer parameters are rounded to integers; see :meth:`Parameters.from_uniform`.

        Args:
            U: Points of the unit cube, `* x d`.
        """
        if self.parameters is not None:
            rounded = self.parameters.rounded
            return (rounded if self.parameters.mixed else self.parameters.from_uniform)(U)
        lower, upper = self._corners.like(U)
        # torch.lerp returns the corners exactly, so rounding does not lead beyond them.
        return torch.lerp(lower, upper, U)

    def by_unit(self, by: Tensor) -> Tensor:
        """Convert gradients in points of this box to gradients in points of the cube, `* x d`.

        For an integer parameter, the gradient of :meth:`Parameters.from_uniform` is used.

        Args:
            by: Gradients with respect to points of this box, `* x d`.
        """
        lower, upper = self._corners.like(by)
        return by * (upper - lower)

    def to_unit(self, X: Tensor) -> Tensor:
        """Map points of this box to the unit cube, `* x d`.

        Args:
            X: Points of this box, `* x d`.
        """
        if self.parameters is not None:
            return X if self.parameters.mixed else self.parameters.to_uniform(X)
        return self._shares(X)

    def _shares(self, X: Tensor) -> Tensor:
        """Positions of points between the corners, as fractions of the ranges, `* x d`."""
        lower, upper = self._corners.like(X)
        return (X - lower) / (upper - lower)

    def require_inside(self, X: Tensor, name: str = "X") -> None:
        """Check that points lie in the box.

        Args:
            X: Points, `* x d`.
            name: Name of the points in error messages.

        Raises:
            InputDataError: If a point lies outside the box or is not finite.
        """
        U = self._shares(X)
        rounding = max(ROUNDING, 8 * torch.finfo(U.dtype).eps)
        off = ~((U - 0.5).abs() <= 0.5 + rounding).all(-1)
        if bool(off.any()):
            first = off.nonzero()[0]
            point = X[tuple(first)].tolist()
            raise InputDataError(
                f"{name}{first.tolist() if off.dim() else ''} is {point}, which lies outside "
                f"{self!r} or is not finite; clamp it, or widen the bounds."
            )

    @property
    def listed(self) -> Tensor | None:
        search = self.search
        if isinstance(search, DiscreteSearch):
            return search.X
        space = search.space if isinstance(search, MixedSearch) else self.parameters
        X = torch.empty(1, 0, dtype=torch.float64, device="cpu")
        for axis in [] if space is None else space.axes:
            levels = axis.levels
            if levels is None or len(X) * len(levels) > MOST_LISTED:
                return None
            X = torch.cat([X.repeat_interleave(len(levels), 0), levels.repeat(len(X), 1)], -1)
        return search.held(X) if X.numel() else None

    @cached_property
    def _corners(self) -> DeviceCopies:
        return DeviceCopies(self.bounds)

    @property
    def extent(self) -> Tensor:
        """Lengths of the ranges, followed by 1 for each context coordinate, `d + c`."""
        lengths = self.bounds[1] - self.bounds[0]
        return torch.cat([lengths, lengths.new_ones(self.context_dim)])

    def center(self, like: Tensor) -> Tensor:
        """The centre of the box, `d`.

        Args:
            like: A tensor of any shape with the dtype and the device of the result.
        """
        return self.from_unit(like.new_full((self.dim,), 0.5))


def holding(state: State, fixed: Mapping[str, Any] | None) -> State:
    """A state whose choices and recommendations have given values of some parameters.

    Args:
        state: A state of one trial, on a box with named parameters.
        fixed: Values of the held parameters, indexed by name; None for none. Parameters held before
            stay held.

    Raises:
        InputDataError: If the domain has no named parameters, if a name is unknown, or if a value
            lies outside its range.
    """
    if fixed is None or (isinstance(fixed, Mapping) and not fixed):
        return state
    box = state.domain
    search = box.search if isinstance(box, Box) else None
    space = search.space if isinstance(search, MixedSearch) else getattr(box, "parameters", None)
    if not isinstance(fixed, Mapping) or space is None or not set(fixed) <= set(space.by_name):
        raise InputDataError(
            f"fixed is {shown(fixed)}, but it may hold only the parameters "
            f"{', '.join(space.by_name)}; correct the names."
            if space is not None
            else f"fixed is {shown(fixed)}, but {box!r} has no named parameters; give "
            "Box({'rate': (0, 1), ...})."
        )
    dtype = state.basis.variance.dtype
    values = {name: _value(name, space.by_name[name], fixed[name], dtype) for name in fixed}
    before = search.fixed if isinstance(search, MixedSearch) else {}
    return searched(state, MixedSearch(space, {**before, **values}))


def searched(state: State, search: Search) -> State:
    """A state on a box, with another search."""
    domain = copy.copy(state.domain)
    assert isinstance(domain, Box)
    domain.search = search
    members = tuple(member._replace(domain=domain) for member in state.members)
    return state._replace(domain=domain, members=members)


def _require_extent(bounds: Tensor, dtype: torch.dtype) -> None:
    """Check that a dtype can separate the points of a box, and can square their coordinates.

    Raises:
        InputDataError: If a bound is too large, or if a range is shorter than 64 rounding errors of
            its ends.
    """
    lower, upper = bounds.double()
    most, least = largest(dtype), 64 * torch.finfo(dtype).eps * bounds.double().abs().amax(0)
    if float(bounds.abs().max()) > most or bool((upper - lower < least).any()):
        raise InputDataError(
            f"Box: bounds are {bounds.tolist()}, but {dtype} needs bounds of at most {most:g} in "
            f"size, and ranges of at least {least.tolist()} (64 times the rounding error of the "
            "bounds); choose another unit, count from an origin of your own, or use float64."
        )
