"""Boxes: all points between two corners, or all values of named parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from botorch_tv.gp.search import DiscreteSearch, MultiStart, Search, raw_points, spread
from botorch_tv.gp.tensors import DeviceCopies, Rows, without_gradients
from botorch_tv.hints import hinted
from botorch_tv.strategies.domains import Domain, corners
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.named import Parameters, checked_value
from botorch_tv.strategies.parameters import Context, Parameter
from botorch_tv.strategies.state import State
from botorch_tv.strategies.subspace import TOLERANCE, Subspace
from botorch_tv.validation import largest, require, require_integer, shown

Bounds = (
    Tensor | Sequence[tuple[float, float]] | Mapping[str, Parameter | Context | tuple[float, float]]
)
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
            :class:`~botorch_tv.Loop` does both. Trials are searched one by one if a
            parameter is a :class:`Choice`.
        constraints: Limits on the values of named parameters, such as ``"a + 2 * b <= 1"`` or
            ``["1 <= a + b <= 2", "a >= b"]``: formulas of names, numbers and + - * /. No other
            points are suggested or recommended.
        context_dim: Number c of context coordinates, such as the weather, which are given before
            each round and not chosen. In the input of the kernel, the context coordinates follow
            the d coordinates of the box. ``ask(context=...)`` requires the context. Named boxes
            have named contexts instead, ``{"outside": Context(-10, 40), ...}``.
        search: The method that maximises acquisition functions. The default is the gradient ascent
            :class:`~botorch_tv.strategies.MultiStart`.
            :class:`~botorch_tv.strategies.DiscreteSearch` restricts the choice to given points.

    Attributes:
        bounds: `2 x d`.
        constraints: The limits on values, as text.
        contexts: The named contexts.

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
        self,
        bounds: Bounds,
        *,
        constraints: str | Sequence[str] = (),
        context_dim: int = 0,
        search: Search | None = None,
    ) -> None:
        named = isinstance(bounds, Mapping)
        require(
            named or not constraints,
            f"Box: constraints is {constraints!r}, but these parameters have no names; give "
            "Box({'a': (0, 1), 'b': (0, 1)}, constraints=['a + b <= 1']).",
        )
        self.parameters = Parameters(bounds, constraints) if isinstance(bounds, Mapping) else None
        self.constraints, self.contexts = tuple[str, ...](), dict[str, Context]()
        if self.parameters is not None:  # named parameters are modelled in the unit cube
            self.constraints = tuple(limit.text for limit in self.parameters.limits)
            self.contexts = self.parameters.contexts
            ends = torch.tensor([[0.0], [1.0]], dtype=torch.float64, device="cpu")
            bounds = ends.repeat(1, self.parameters.columns)
        self.bounds = corners("Box: bounds", bounds).detach().clone()
        _require_extent(self.bounds, self.bounds.dtype)
        self.context_dim = require_integer("Box: context_dim", context_dim, 0, "0 for none.")
        require(
            not (context_dim and self.contexts),
            f"Box: context_dim is {context_dim}, but {', '.join(self.contexts)} are the context; "
            "omit context_dim.",
        )
        self.context_dim += 0 if self.parameters is None else self.parameters.context_columns
        self.dim, self.device = self.bounds.shape[1], self.bounds.device
        self.columns = self.dim + self.context_dim
        usual: Search = MultiStart()
        if self.parameters is not None:
            usual = MixedSearch(self.parameters) if self.parameters.mixed else usual
            require(
                search is None or (isinstance(search, MultiStart) and not self.parameters.mixed),
                f"Box: search is {search!r}, but named parameters are searched by MultiStart or, "
                "if a parameter is a Choice or there are constraints, by a built-in search; omit "
                "search, or give bounds as a tensor 2 x d.",
            )
        self.search = usual if search is None else search
        self.search.check(self)
        self._in_features: dict[tuple[object, ...], PointBasis | str] = {}

    def __getstate__(self) -> dict[str, object]:
        """The state to pickle, without cached features of kernels."""
        return {**self.__dict__, "_in_features": {}}

    def __repr__(self) -> str:
        ranges = " x ".join(f"[{low:g}, {high:g}]" for low, high in self.bounds.T.tolist())
        ranges = ranges if self.parameters is None else repr(self.parameters)
        limits = f", constraints={list(self.constraints)}" if self.constraints else ""
        context = f", context_dim={self.context_dim}"
        context = "" if self.contexts or not self.context_dim else context
        return f"Box({ranges}{limits}{context})"

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
        lower, upper = self.part.like(U)
        # torch.lerp returns the corners exactly, so rounding does not lead beyond them.
        return torch.lerp(lower, upper, U)

    def by_unit(self, by: Tensor) -> Tensor:
        """Convert gradients in points of this box to gradients in points of the cube, `* x d`.

        For an integer parameter, the gradient of :meth:`Parameters.from_uniform` is used.

        Args:
            by: Gradients with respect to points of this box, `* x d`.
        """
        lower, upper = self.part.like(by)
        return by * (upper - lower)

    def to_unit(self, X: Tensor) -> Tensor:
        """Map points of this box to the unit cube, `* x d`.

        Args:
            X: Points of this box, `* x d`.
        """
        if self.parameters is not None:
            return X if self.parameters.mixed else self.parameters.to_uniform(X)
        lower, upper = self.part.like(X)
        U = (X - lower) / (upper - lower).clamp_min(torch.finfo(X.dtype).tiny)
        return U if self.part is self._corners else U.clamp(0, 1)

    def held(self, X: Tensor) -> Tensor:
        """The nearest points that the search may choose, `* x d`.

        Args:
            X: Points of this box, `* x d`.
        """
        X = self.search.held(X)
        return X if self.part is self._corners else X.clamp(*self.part.like(X))

    def require_inside(self, X: Tensor, name: str = "X") -> None:
        """Check that points lie in the box.

        Args:
            X: Points, `* x d`.
            name: Name of the points in error messages.

        Raises:
            InputDataError: If a point lies outside the box or is not finite.
        """
        lower, upper = self._corners.like(X)
        U = (X - lower) / (upper - lower)
        rounding = max(ROUNDING, 8 * torch.finfo(U.dtype).eps)
        off = ~((U - 0.5).abs() <= 0.5 + rounding).all(-1)
        if bool(off.any()):
            first = off.nonzero()[0]
            point = X[tuple(first)].tolist()
            raise InputDataError(
                f"{name}{first.tolist() if off.dim() else ''} is {point}, which lies outside "
                f"{self!r} or is not finite; clamp it, or widen the bounds."
            )

    def require_allowed(self, X: Tensor) -> None:
        """Check that a point keeps the limits on the values of parameters.

        Args:
            X: The point, `d`.

        Raises:
            InputDataError: If the point violates a limit.
        """
        if self.parameters is None or not self.parameters.limits:
            return
        kept = Subspace(self.parameters).excess(X) <= TOLERANCE
        for limit, good in zip(self.parameters.limits, kept.tolist()):
            if not good:
                raise InputDataError(
                    f"{self.parameters.named(X)} violates {limit.text!r}; give a point that keeps "
                    "all limits, or loosen the limit."
                )

    @property
    def listed(self) -> Tensor | None:
        if isinstance(self.search, DiscreteSearch):
            return self.search.X
        return None if self.named_search is None else self.named_search.listed(MOST_LISTED)

    @property
    def named_search(self) -> MixedSearch | None:
        """A search of all values of named parameters, or its part; None without names."""
        if isinstance(self.search, MixedSearch):
            return self.search
        return None if self.parameters is None else MixedSearch(self.parameters)

    @cached_property
    def _corners(self) -> DeviceCopies:
        return DeviceCopies(self.bounds)

    @cached_property
    def part(self) -> DeviceCopies:
        """The corners of the part that is searched, if the parameters have no names, `2 x d`."""
        return self._corners

    def filling(self, number: int, rounds: int, like: Tensor) -> Tensor:
        """Points that fill the box, also if steps restrict the search to a part, `number x d`.

        Args:
            number: Number of points.
            rounds: Number of past rounds.
            like: A tensor of the dtype and device of the result, any shape.
        """
        search = self.search
        if self.part is not self._corners:
            lower, upper = self._corners.like(like)
            return torch.lerp(lower, upper, raw_points(number, self.dim, rounds, like))
        if self.parameters is not None and isinstance(search, MixedSearch) and search.ranges:
            search = MixedSearch(self.parameters)
        return search.filling(self, number, rounds, like)

    @property
    def sizes(self) -> list[int]:
        """Number of columns of each parameter, followed by those of each context."""
        spaces = () if self.parameters is None else (self.parameters, self.parameters.given)
        sizes = [axis.columns for space in spaces for axis in space.axes]
        return sizes + [1] * (self.columns - sum(sizes))

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
    search = box.named_search if isinstance(box, Box) else None
    by_name = search.space.by_name if search is not None else {}
    if not isinstance(fixed, Mapping) or search is None or not set(fixed) <= set(by_name):
        raise InputDataError(
            f"fixed is {shown(fixed)}, but it may hold only the parameters {', '.join(by_name)}; "
            "correct the names."
            if by_name
            else f"fixed is {shown(fixed)}, but {box!r} has no named parameters; give "
            "Box({'rate': (0, 1), ...})."
        )
    dtype = state.basis.variance.dtype
    values = {name: checked_value(name, by_name[name], fixed[name], dtype) for name in fixed}
    return searched(state, replace(search, fixed={**search.fixed, **values}))


def searched(state: State, search: Search, part: Tensor | None = None) -> State:
    """A state on a box, with another search.

    Args:
        state: The state.
        search: The search.
        part: The corners of the part that is searched, `2 x d`; a range may be empty.

    Raises:
        InputDataError: If the search finds no point of the box.
    """
    domain = copy.copy(state.domain)
    assert isinstance(domain, Box)
    domain.search = search
    domain.part = domain.part if part is None else DeviceCopies(part)
    search.check(domain)
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
