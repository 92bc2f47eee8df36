"""Domains as readable data, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from botorch_tv.identity import Description, describe
from botorch_tv.strategies.box import Bounds, Box
from botorch_tv.strategies.cube import Parameters
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.search import DiscreteSearch, MultiStart, Search
from botorch_tv.validation import require

KIND = "type"
PARAMETERS = "parameters"
MIXED = {KIND: "Mixed"}
"""The saved kind of a box with choices, whose search follows from its parameters."""
MOST_ARMS = 10**8
"""No loop has more; a file that says so is damaged."""


def as_domain(bounds: Domain | Bounds) -> Domain:
    """The box of some bounds, sides or named parameters; anything else is handed on."""
    return Box(bounds) if isinstance(bounds, (Tensor, Mapping, list, tuple)) else bounds  # type: ignore[return-value]


def domain_data(domain: Domain) -> dict[str, Description]:
    """A domain as data of which :func:`domain_from` makes one that is equal bit for bit.

    Domains and searches of one's own are described, but not in full.
    """
    if type(domain) is Box:
        sides: dict[str, Description] = {"bounds": _numbers(domain.bounds)}
        if domain.parameters is not None:
            sides = {PARAMETERS: domain.parameters.data()}
        search = _search_data(domain.search)
        return {KIND: "Box", **sides, "context_dim": domain.context_dim, "search": search}
    if type(domain) is Grid:
        axes = _axes(domain)
        if axes is None:
            return {KIND: "Grid", "arms": _numbers(domain.X)}
        return {KIND: "Grid", "axes": [_numbers(one) for one in axes]}
    described: dict[str, Description] = describe(domain, "domain")
    return described


def domain_from(data: Mapping[str, Any], device: torch.device) -> Domain | None:
    """The domain that was described; None where the description is not enough.

    Raises:
        KeyError, TypeError, ValueError, InputDataError: If the data are damaged.
    """
    if data[KIND] == "Box":
        named = PARAMETERS in data
        if named and data["search"] == MIXED:
            return Box(Parameters.from_data(data[PARAMETERS]), context_dim=data["context_dim"])
        search = _search_from(data["search"], device)
        if search is None:
            return None
        bounds = (
            Parameters.from_data(data[PARAMETERS]) if named else _tensor(data["bounds"], device)
        )
        return Box(bounds, context_dim=data["context_dim"], search=search)
    if data[KIND] == "Grid" and "axes" in data:
        axes = [_tensor(axis, device) for axis in data["axes"]]
        arms = math.prod(map(len, axes))
        require(0 < arms <= MOST_ARMS, f"the axes make {arms:,} arms")
        grid = Grid(_product(axes))
        grid.shape = tuple(len(axis) for axis in axes)
        return grid
    return Grid(_tensor(data["arms"], device)) if data[KIND] == "Grid" else None


def _search_data(search: Search) -> Description:
    if type(search) is MixedSearch:
        return MIXED
    if type(search) is MultiStart:
        return {KIND: "MultiStart", **asdict(search)}
    if type(search) is DiscreteSearch:
        return {KIND: "Candidates", "X": _numbers(search.X)}
    return describe(search, "domain.search")


def _search_from(data: Mapping[str, Any], device: torch.device) -> Search | None:
    settings = {name: one for name, one in data.items() if name != KIND}
    if data[KIND] == "MultiStart":
        return MultiStart(**settings)
    return DiscreteSearch(_tensor(data["X"], device)) if data[KIND] == "Candidates" else None


def _axes(grid: Grid) -> list[Tensor] | None:
    """The axes of a regular grid; None where the arms have to be listed."""
    if len(grid.shape) != grid.dim:
        return None
    cube = grid.X.view(*grid.shape, grid.dim)
    axes = []
    for side in range(grid.dim):
        first = cube[..., side].movedim(side, -1)
        axes.append(first.reshape(-1, grid.shape[side])[0])
    return axes if torch.equal(_product(axes), grid.X) else None


def _product(axes: list[Tensor]) -> Tensor:
    """All points of a grid, the last axis running fastest, `M x d`."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).view(-1, len(axes))


def _numbers(tensor: Tensor) -> dict[str, Description]:
    """A tensor, each row or number of it in full."""
    return {"dtype": str(tensor.dtype), "rows": tensor.tolist()}


def _tensor(data: Mapping[str, Any], device: torch.device) -> Tensor:
    dtypes = {str(one): one for one in (torch.float64, torch.float32)}
    return torch.tensor(data["rows"], dtype=dtypes[data["dtype"]], device=device)
