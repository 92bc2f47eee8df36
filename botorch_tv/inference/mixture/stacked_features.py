"""Features of all lengthscales, concatenated, with their derivatives by the points.

For a few points at a time, as a search evaluates them many times in a row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.mixture.features import Features, Inducing, Products, gaussian

Pull = Callable[[Tensor], Tensor]
"""From derivatives by features, `* x r`, to those by points, `* x d`."""


class StackedFeatures(ABC):
    """Features of all lengthscales, concatenated."""

    @abstractmethod
    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        """Features of points of the unit cube, `* x d -> * x r`, and their derivatives."""


def stacked(parts: Sequence[Features]) -> StackedFeatures:
    """Features of some lengthscales, all of them products or none."""
    products = [one for one in parts if isinstance(one, Products)]
    inducing = [one for one in parts if isinstance(one, Inducing)]
    return StackedProducts.of(products) if products else StackedInducing(inducing)


@dataclass(frozen=True, eq=False)
class StackedProducts(StackedFeatures):
    """Products of features of one coordinate, those of all lengthscales concatenated.

    Attributes:
        place: Which feature of each coordinate a product takes, `1 x d x r`, int64.
        nodes: Of all lengthscales, `M`.
        sharpness: 1 / ℓ² of each node's, `M`.
        inverse: From kernels at the nodes to features of a coordinate, `M x N`.
    """

    place: Tensor
    nodes: Tensor
    sharpness: Tensor
    inverse: Tensor

    @classmethod
    def of(cls, parts: Sequence[Products]) -> StackedProducts:
        """The features of some lengthscales, stacked."""
        places, before = [], 0
        for one in parts:
            places.append(one.number.T + before)
            before += len(one.inverse)
        return cls(
            place=torch.cat(places, -1).unsqueeze(0),
            nodes=torch.cat([one.nodes for one in parts]),
            sharpness=torch.cat([torch.full_like(one.nodes, one.lengthscale**-2) for one in parts]),
            inverse=torch.block_diag(*[one.inverse.T for one in parts]),  # type: ignore[no-untyped-call]
        )

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        away = self.nodes - U.reshape(-1, U.shape[-1], 1)
        steep = away * self.sharpness
        kernel = torch.exp(-0.5 * away * steep)
        place = self.place.expand(len(away), -1, -1)
        sides = (kernel @ self.inverse).gather(-1, place)

        def pull(by: Tensor) -> Tensor:
            slopes = ((steep * kernel) @ self.inverse).gather(-1, place)
            side, products = sides.unbind(-2), [by.reshape(len(away), -1)]
            # By the product of all sides after each first, then times that of all before it.
            for one in side[:0:-1]:
                products.append(products[-1] * one)
            before = side[0]
            for number, one in enumerate(side[1:], 1):
                products[-1 - number] = products[-1 - number] * before
                before = before * one
            return (slopes * torch.stack(products[::-1], -2)).sum(-1).view_as(U)

        return sides.prod(-2).view(*U.shape[:-1], -1), pull


@dataclass(frozen=True, eq=False)
class StackedInducing(StackedFeatures):
    """Projections, each on its own inducing points."""

    parts: Sequence[Inducing]

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        covariances = [gaussian(U, one.points, one.lengthscale) for one in self.parts]

        def pull(by: Tensor) -> Tensor:
            total = torch.zeros_like(U)
            own = torch.split(by, [one.size for one in self.parts], -1)
            for one, part, covariance in zip(self.parts, own, covariances):
                slopes = (part @ one.inverse) * covariance
                away = slopes @ one.points - slopes.sum(-1, keepdim=True) * U
                total.add_(away, alpha=one.lengthscale**-2)
            return total

        features = [one @ part.inverse.T for one, part in zip(covariances, self.parts)]
        return torch.cat(features, -1), pull
