"""What a bank holds of functions on a domain before any data: features per lengthscale."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.inference.mixture.bank import Bank, Members
from botorch_tv.inference.mixture.features import (
    Features,
    directions,
    features,
    features_among,
)
from botorch_tv.inference.mixture.stacked_features import StackedFeatures, stacked
from botorch_tv.inference.tensors import Scratch

MOST_COLUMNS = 20
"""Coordinates, context included, up to which features have been tried."""
STARTS = 64
"""Points that fill the domain before its units are known; then the first again."""
CANDIDATES = 1024
"""Points among which these are sought."""


@dataclass(frozen=True, eq=False)
class BankPrior:
    """Features of a domain.

    Attributes:
        bank: Which processes.
        lower: Lower corner, `d`.
        upper: Upper corner, `d`.
        context_dim: Number c of coordinates without bounds, behind the others.
        features: Per lengthscale.
        tables: Features of all arms per lengthscale, the constant's behind, `M x (r + 1)`, and what
            they leave out, `M`; None on a box.
        starts: Points that fill the unit cube, `STARTS x d`, or numbers of arms, int64.
        variance: Ones, one per arm, or one for all points of a box.
        members: Rates, hazards and noise ratios.
    """

    bank: Bank
    lower: Tensor
    upper: Tensor
    context_dim: int
    features: tuple[Features, ...]
    tables: tuple[tuple[Tensor, Tensor], ...] | None
    starts: Tensor
    variance: Tensor
    members: Members
    scale: float = 1.0
    scratch: Scratch = field(default_factory=Scratch)
    _some: dict[tuple[int, ...], BankPrior] = field(default_factory=dict)

    def of_lengthscales(self, numbers: tuple[int, ...]) -> BankPrior:
        """The prior of some of the lengthscales of a box, the same object whenever asked for."""
        if len(numbers) == len(self.features):
            return self
        if numbers not in self._some:
            features = tuple(self.features[number] for number in numbers)
            self._some[numbers] = replace(self, features=features, _some={})
        return self._some[numbers]

    @property
    def sizes(self) -> list[int]:
        """Features per lengthscale, the constant included."""
        if self.tables is not None:
            return [table.shape[-1] for table, _ in self.tables]
        return [one.size + 1 for one in self.features]

    @cached_property
    def _in_unit(self) -> bool:
        """Whether the domain is the unit cube; a search asks at every step."""
        return bool(((self.lower == 0) & (self.upper == 1)).all())

    @cached_property
    def stacked(self) -> StackedFeatures:
        """Features of all lengthscales, concatenated."""
        return stacked(self.features)

    @property
    def arms(self) -> int:
        """Number M of arms; 1 on a box."""
        return self.variance.numel()

    @property
    def normals(self) -> int:
        """Normal variates that a function drawn takes: one for the member, the others for it."""
        return 1 + max(self.sizes)

    def unlearned(self) -> BankPrior:
        """The prior before anything was learned: this one, as a mixture learns beside it."""
        return self

    def unit(self, X: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
        """Points of the unit cube, `T x q x (d + c)`.

        A context has no bounds; it is squeezed between 0 and 1, half of it for what lies within
        about one standard deviation of the mean of the starts.

        Args:
            X: `T x q x (d + c)`.
            centre: Mean of the starts' context, `T x c`.
            spread: Its standard deviation, `T x c`.
        """
        if not self.context_dim:
            return X if self._in_unit else (X - self.lower) / (self.upper - self.lower)
        chosen, known = torch.tensor_split(X, [len(self.lower)], dim=-1)
        known = torch.sigmoid((known - centre.unsqueeze(-2)) / spread.unsqueeze(-2))
        return torch.cat([(chosen - self.lower) / (self.upper - self.lower), known], -1)

    def by_chosen(self, by: Tensor) -> Tensor:
        """Derivatives by what is chosen, from those by its places in the unit cube, `* x d`."""
        return by if self._in_unit else by / (self.upper - self.lower)


def with_constant(phi: Tensor) -> tuple[Tensor, Tensor]:
    """Features with that of the constant behind, and the prior variance they leave out."""
    left = (1 - phi.square().sum(-1)).clamp_min(0)
    return torch.nn.functional.pad(phi, (0, 1), value=1.0), left


def prior_on_box(
    bank: Bank,
    lower: Tensor,
    upper: Tensor,
    context_dim: int,
    among: tuple[Tensor, Tensor] | None = None,
) -> BankPrior:
    """The prior on points between two corners.

    Args:
        bank: Which processes.
        lower: Lower corner, `d`.
        upper: Upper corner, `d`.
        context_dim: Number c of coordinates without bounds, behind the others.
        among: Points of the unit cube that fill what may be chosen, the first few as well as all,
            and others that reach its ends, too, each `n x d`; None where it is all of the cube.
    """
    columns = len(lower) + context_dim
    if among is None:
        cloud = even_points(CANDIDATES, len(lower))
        cloud[0] = 0.5
        starts, own = cloud[filling(cloud)], _features(bank, columns, lower)
    else:
        starts, reaching = among[0][:STARTS], among[1].cpu()
        every = torch.cat([reaching, even_points(len(reaching), columns)[:, len(lower) :]], -1)
        own = tuple(
            features_among(every, one, bank.tolerance, bank.features, lower)
            for one in bank.lengthscales_of(columns)
        )
    return BankPrior(
        bank=bank,
        lower=lower,
        upper=upper,
        context_dim=context_dim,
        features=own,
        tables=None,
        starts=starts.to(lower),
        variance=lower.new_ones(()),
        members=bank.members(lower),
    )


def prior_on_arms(bank: Bank, X: Tensor) -> BankPrior:
    """The prior on some arms, `M x d`."""
    lower, upper = X.amin(0), X.amax(0)
    # A column that is the same for all arms tells nothing.
    upper = torch.where(upper > lower, upper, lower + 1)
    U = (X - lower) / (upper - lower)
    own = _features(bank, X.shape[-1], X)
    tables = []
    for one in own:
        table, left = with_constant(one.at(U))
        waves, constant = table[:, :-1], table[:, -1:]
        rest = waves @ directions(waves, 0.1 * bank.tolerance)
        tables.append((torch.cat([rest, constant], -1), left))
    return BankPrior(
        bank=bank,
        lower=lower,
        upper=upper,
        context_dim=0,
        features=own,
        tables=tuple(tables),
        starts=filling(U.cpu()).to(X.device),
        variance=X.new_ones(len(X)),
        members=bank.members(X),
    )


def filling(U: Tensor) -> Tensor:
    """Numbers of points of the unit cube, `M x d`, that fill it: each far from those before it.

    The first is next to the middle. Walls count as points twice as far away as they are.
    """
    walls = 2 * torch.minimum(U, 1 - U).amin(-1)
    # Points tie on regular grids; rounding is not to decide which is taken.
    first = ((U - 0.5).square().sum(-1) * 1e6).round().argmin()
    chosen = [first]
    nearest = (U - U[first]).norm(dim=-1)
    for _ in range(STARTS - 1):
        following = (torch.minimum(nearest, walls + 1e-3 * nearest) * 1e6).round().argmax()
        chosen.append(following)
        nearest = torch.minimum(nearest, (U - U[following]).norm(dim=-1))
    return torch.stack(chosen)


def _features(bank: Bank, columns: int, like: Tensor) -> tuple[Features, ...]:
    lengthscales = bank.lengthscales_of(columns)
    return tuple(
        features(one, columns, bank.tolerance, bank.features, like) for one in lengthscales
    )
