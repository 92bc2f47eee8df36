"""A continuous domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.inference.box_prior import BoxPrior, box_prior_at
from botorch_tv.inference.factor import Inference
from botorch_tv.inference.point_basis import PointBasis
from botorch_tv.inference.point_kernel import formula
from botorch_tv.inference.point_recursion import in_features
from botorch_tv.inference.process import Process
from botorch_tv.inference.tensors import DeviceCopies, Rows, without_gradients
from botorch_tv.strategies.cube import Parameter, Parameters
from botorch_tv.strategies.domains import Domain, require_sides
from botorch_tv.strategies.mixed.search import MixedSearch
from botorch_tv.strategies.raw_points import spread
from botorch_tv.strategies.search import MultiStart, Search
from botorch_tv.validation import largest, require, require_integer, shown

Bounds = Tensor | Sequence[tuple[float, float]] | Mapping[str, Parameter | tuple[float, float]]
"""Corners `2 x d`, sides, or named parameters."""

ROUNDING = 1e-9
"""Points may lie outside by this share of a side, or what rounding makes of it."""
PROBES = 13
"""Points besides centre and corners at which a kernel is evaluated."""


class Box(Domain):
    """A continuous domain: all points between two corners, or all values of named parameters.

    Args:
        bounds: Lower and upper corner as a tensor, `2 x d`, as in BoTorch; or a list of sides,
            ``[(low, high), ...]``, which are taken in float64; or named parameters in their own
            units, ``{"temperature": (20, 80), "rate": Float(1e-5, 0.1, log=True), "layers":
            Integer(1, 8), "kind": Choice("a", "b")}``. With named parameters points lie in the unit
            cube, and lengthscales are fractions of the sides; ``parameters.named`` and
            ``parameters.place`` convert between the two, as :class:`~botorch_tv.strategies.Loop`
            does automatically. A box with a :class:`Choice` supports one trial at a time.
        context_dim: Number c of coordinates that are not chosen but known before each round, such
            as the weather. The kernel sees them after the d coordinates of the box, and
            ``ask(context=...)`` requires them.
        search: How an acquisition function is maximised: by
            :class:`~botorch_tv.strategies.MultiStart` gradient ascent by default;
            :class:`~botorch_tv.strategies.DiscreteSearch` restricts the choice to given points.

    Attributes:
        bounds: `2 x d`.

    Raises:
        InputDataError: If ``bounds`` is not a finite floating-point `2 x d` tensor whose upper
            corner is above the lower one, or is two lists that could be either sides or corners;
            or if candidates lie outside.

    Example:
        >>> domain = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    """

    @without_gradients
    def __init__(
        self, bounds: Bounds, *, context_dim: int = 0, search: Search | None = None
    ) -> None:
        self.parameters = Parameters(bounds) if isinstance(bounds, Mapping) else None
        if self.parameters is not None:  # modelled in the unit cube, whatever their own units
            sides = torch.zeros(2, self.parameters.columns, dtype=torch.float64, device="cpu")
            bounds = sides + torch.arange(2, device="cpu").unsqueeze(-1)
        self.bounds = _checked_corners(bounds).detach().clone()
        self.context_dim = require_integer(
            "Box: context_dim", context_dim, 0, "give the number of known coordinates."
        )
        self.search = _chosen_search(search, self.parameters)
        self.search.check(self)
        self._in_features: dict[tuple[object, ...], PointBasis | str] = {}

    def __getstate__(self) -> dict[str, object]:
        """The state to pickle, without cached features of kernels."""
        return {**self.__dict__, "_in_features": {}}

    @property
    def dim(self) -> int:
        """Dimension d of the points chosen."""
        return self.bounds.shape[1]

    @property
    def columns(self) -> int:
        return self.dim + self.context_dim

    @property
    def device(self) -> torch.device:
        return self.bounds.device

    def __repr__(self) -> str:
        sides = " x ".join(f"[{low:g}, {high:g}]" for low, high in self.bounds.T.tolist())
        sides = sides if self.parameters is None else repr(self.parameters)
        context = f", context_dim={self.context_dim}" if self.context_dim else ""
        return f"Box({sides}{context})"

    def prior(
        self,
        kernel: Kernel | Tensor,
        inference: Inference,
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> BoxPrior:
        _require_extent(self.bounds, dtype)
        return box_prior_at(self.probe(dtype, device), kernel)

    def in_features(
        self, process: Process, box_prior: BoxPrior, tolerance: float, most: int
    ) -> PointBasis | str:
        """As :func:`~botorch_tv.inference.point_recursion.in_features`, cached by formula."""
        said = formula(box_prior.kernel)
        like = box_prior.variance
        key = (said, process.noise, tolerance, most, like.dtype, like.device)
        found = None if said is None else self._in_features.get(key)
        if found is None:
            corners = self._corners.like(like)
            found = in_features(process, box_prior, corners, tolerance=tolerance, most=most)
            if said is not None:
                self._in_features[key] = found
        return found

    def probe(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Points at which to evaluate a kernel: centre, corners and some between, `q x d`."""
        points = torch.zeros(3 + PROBES, self.columns, dtype=dtype, device=device)
        points[0, : self.dim] = self.center(points)
        points[1:3, : self.dim] = self._corners.like(points)
        points[3:, : self.dim] = self.from_unit(spread(PROBES, self.dim).like(points))
        return points

    def no_choices(self, batch_shape: Size, *, dtype: torch.dtype, device: torch.device) -> Rows:
        return Rows.empty(batch_shape, (self.columns,), dtype=dtype, device=device)

    def locate(self, X: Tensor) -> Tensor:
        self.require_inside(X[..., : self.dim])
        if self.context_dim and not bool(X.isfinite().all()):
            raise InputDataError("X has a context that is NaN or infinite; use finite numbers.")
        return X

    def points(self, choice: Tensor, like: Tensor) -> Tensor:
        return choice

    def from_unit(self, U: Tensor) -> Tensor:
        """Map points of the unit cube to this box, `* x d`.

        Each integer gets an equal share of its side; see :class:`Parameters`.
        """
        if self.parameters is not None:
            if self.parameters.mixed:
                return self.parameters.rounded(U)
            return U if self.parameters.all_float else self.parameters.from_uniform(U)
        if self._is_unit:
            return U
        lower, upper = self._corners.like(U)
        # It ends in the corners themselves, where rounding could lead beyond them.
        return torch.lerp(lower, upper, U)

    def by_unit(self, by: Tensor) -> Tensor:
        """Derivatives by points of the unit cube, from those by points of this box, `* x d`.

        As :meth:`Parameters.from_uniform` has them where an integer is rounded.
        """
        if self.parameters is not None or self._is_unit:
            return by
        lower, upper = self._corners.like(by)
        scaled: Tensor = by * (upper - lower)
        return scaled

    def to_unit(self, X: Tensor) -> Tensor:
        """Map points of this box to the unit cube, `* x d`."""
        if self.parameters is not None:
            plain = self.parameters.all_float or self.parameters.mixed
            return X if plain else self.parameters.to_uniform(X)
        return X if self._is_unit else self._shares(X)

    def _shares(self, X: Tensor) -> Tensor:
        """Positions of points between the corners, as fractions of the sides, `* x d`."""
        lower, upper = self._corners.like(X)
        U: Tensor = (X - lower) / (upper - lower)
        return U

    def require_inside(self, X: Tensor, name: str = "X") -> None:
        """Raise an ``InputDataError`` unless all points `* x d` lie in the box."""
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

    @cached_property
    def _is_unit(self) -> bool:
        """Whether it is the unit cube, of which a search need not be told at every step."""
        return bool((self.bounds[0] == 0).all() and (self.bounds[1] == 1).all())

    @cached_property
    def _corners(self) -> DeviceCopies:
        return DeviceCopies(self.bounds)

    @property
    def extent(self) -> Tensor:
        """Lengths of the sides, followed by 1 for each context coordinate, `d + c`."""
        sides = self.bounds[1] - self.bounds[0]
        return torch.cat([sides, sides.new_ones(self.context_dim)])

    def center(self, like: Tensor) -> Tensor:
        """The centre, `d`."""
        if self.parameters is not None:
            return self.from_unit(like.new_full((self.dim,), 0.5))
        lower, upper = self._corners.like(like)
        middle: Tensor = 0.5 * (lower + upper)
        return middle


def _corners_of(sides: Sequence[tuple[float, float]]) -> Tensor:
    """Sides ``[(low, high), ...]`` as corners `2 x d`."""
    try:
        bounds = torch.tensor(
            [(float(low), float(high)) for low, high in sides], dtype=torch.float64, device="cpu"
        )
    except (TypeError, ValueError) as error:
        raise InputDataError(
            f"Box: bounds is {shown(sides)}, but sides are pairs of numbers; give [(low, high), "
            "...], or {name: (low, high), ...}."
        ) from error
    require_sides("Box: bounds", sides)
    return bounds.view(-1, 2).T


def _checked_corners(bounds: object) -> Tensor:
    """Bounds of a box as corners `2 x d`.

    Raises:
        InputDataError: If they are not bounds, or a side is empty, infinite or too short for the
            dtype.
    """
    if isinstance(bounds, (list, tuple)):
        bounds = _corners_of(bounds)
    if not isinstance(bounds, Tensor) or bounds.dim() != 2 or bounds.shape[0] != 2:
        described = tuple(bounds.shape) if isinstance(bounds, Tensor) else repr(bounds)
        raise InputDataError(
            f"Box: bounds is {described}, but it must be a tensor of shape 2 x d, lower bounds "
            "in the first row; or give [(low, high), ...], or {name: (low, high), ...}."
        )
    if not bounds.is_floating_point() or bounds.shape[1] < 1:
        raise InputDataError(
            f"Box: bounds is {bounds.dtype} with {bounds.shape[1]} columns; pass float64 and "
            "at least one."
        )
    if not bool((bounds.isfinite().all(0) & (bounds[0] < bounds[1])).all()):
        raise InputDataError(
            f"Box: bounds are {bounds.tolist()}, but every lower bound must be finite and "
            "below its upper bound; leave out coordinates that are fixed."
        )
    _require_extent(bounds, bounds.dtype)
    return bounds


def _chosen_search(search: Search | None, parameters: Parameters | None) -> Search:
    """The given search, or the default for the parameters.

    Raises:
        ValueError: If it is not a search, or cannot search named parameters.
    """
    require(
        search is None or isinstance(search, Search),
        f"Box: search is {search!r}, but it is MultiStart() or another Search; pass "
        "DiscreteSearch(X) for some points only.",
    )
    require(
        parameters is None or search is None or isinstance(search, MultiStart),
        f"Box: search is {search!r}, but named parameters are searched by MultiStart; give "
        "bounds as a tensor 2 x d.",
    )
    if parameters is not None and parameters.mixed:
        require(
            search is None,
            f"Box: search is {search!r}, but where there is a Choice numbers and choices are "
            "searched in turns; leave it out.",
        )
        return MixedSearch(parameters.space)
    return MultiStart() if search is None else search


def _require_extent(bounds: Tensor, dtype: torch.dtype) -> None:
    """Raise unless points of a box can be distinguished and squared in a dtype.

    Raises:
        InputDataError: If a bound is too large, or a side is below 64 rounding errors of its ends.
    """
    extreme = float(bounds.abs().max())
    if extreme > largest(dtype):
        raise InputDataError(
            f"Box: bounds are {bounds.tolist()}, but in {dtype} they are at most "
            f"{largest(dtype):g} in size; choose another unit."
        )
    lower, upper = bounds.double()
    least = 64 * torch.finfo(dtype).eps * torch.maximum(lower.abs(), upper.abs())
    if bool((upper - lower < least).any()):
        raise InputDataError(
            f"Box: bounds are {bounds.tolist()}, but in {dtype} sides must be at least "
            f"{least.tolist()} long, 64 rounding errors; count from an origin of your own, or use "
            "float64."
        )
