"""The candidate processes, and their prior on a domain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from botorch_tv.even_points import even_points
from botorch_tv.gp.mixture.span import FREQUENCIES, GROWTH
from botorch_tv.gp.tensors import Scratch
from botorch_tv.validation import require, require_integer, require_number

PARTS = ("lengthscale", "rate", "hazard", "noise_ratio")
"""Names of the parameters in which the members of a bank differ."""
NEAREST = 3
"""Largest number of coordinates for which default values come from a table. With more
coordinates, default lengthscales grow with the root of the dimension, as distances do."""
SHARES = {1: (0.05, 0.1, 0.2, 0.4), 2: (0.1, 0.2, 0.4), NEAREST: (0.2, 0.4, 0.8)}
NOISE_RATIOS = {1: (0.01, 0.05), 2: (0.01, 0.05), NEAREST: (0.0005, 0.01, 0.05)}
"""Default noise ratios. With three or more coordinates peaks are small parts of the domain. Without
a small noise ratio, the height of a peak, measured repeatedly, would be taken for noise."""
MOST_COLUMNS = 20
"""Largest number of coordinates, including the context, for which a bank was tested."""
STARTS = 64
"""Number of points that fill the domain before the units are set; if more are needed, the points
repeat."""
CANDIDATES = 1024
"""Number of points from which the first points to measure are selected."""
FIRST = 4
"""Default number of measurements that set the units."""


@dataclass(frozen=True)
class Bank:
    """The candidate models of the adaptive strategy: all combinations of given parameter values.

    Rates and hazards are per median time between measurements, lengthscales are fractions of the
    ranges of the domain, and noise ratios are relative to the variance of the objective. Each
    combination of parameter values is a member of the bank; all members have equal prior
    probability.

    Args:
        rates: Rates of change ε, in [0, 1).
        hazards: Probabilities h of a jump, in [0, 1).
        lengthscales: Lengthscales ℓ, positive; None for defaults that depend on the number of
            coordinates.
        noise_ratios: Noise ratios ρ, positive; None for defaults that depend on the number of
            coordinates.
        outliers: Probability, in [0, 1), that a measurement is an outlier, whose value does not
            depend on the objective.
        histories: Number of histories retained for a member that jumps, at least 4: the two
            histories with the newest jumps, and the most probable of the other histories.
        points: Largest number of measured points that represent the posteriors of a lengthscale,
            at least 8. With more measurements, the least important of these points is removed, and
            its information is projected on the other points (Csató and Opper, 2002).
        tolerance: Largest prior variance, in [1e-7, 0.1], that a measured point may have given
            the objective at the points measured before, if the point is represented by these
            points. This variance counts as noise, so it should be far below all noise ratios.

    Raises:
        ValueError: If a list is empty, if it repeats a number, or if a number is out of range.
    """

    rates: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1)
    hazards: tuple[float, ...] = (0.0, 0.02)
    lengthscales: tuple[float, ...] | None = None
    noise_ratios: tuple[float, ...] | None = None
    outliers: float = 0.005
    histories: int = 4
    points: int = 128
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        chance = "[0, 1)", "it is a probability per unit of time, for example 0.01."
        positive = "[1e-6, 1e6]", "give a share such as 0.1."
        rules = dict(zip(PARTS, (positive, chance, chance, positive)))
        for part, (limit, fix) in rules.items():
            name = f"{part}s"
            values = getattr(self, name)
            if values is None and name in ("lengthscales", "noise_ratios"):
                continue
            own = tuple(
                float(require_number(f"Bank: {name}", value, limit, fix)) for value in values
            )
            require(
                len(set(own)) == len(own) > 0,
                f"Bank: {name} is {values!r}, but it must contain one or more distinct numbers; "
                f"{fix}",
            )
            object.__setattr__(self, name, own)
        require_number("Bank: outliers", self.outliers, *chance)
        require_integer("Bank: histories", self.histories, 4, "with fewer, noise passes for jumps.")
        require_integer("Bank: points", self.points, 8, "use 128.")
        require_number("Bank: tolerance", self.tolerance, "[1e-7, 0.1]", "use 0.00001.")

    def values(self, columns: int) -> dict[str, tuple[float, ...]]:
        """Parameter names with their values, in the order of the axes of the members' weights.

        Args:
            columns: Number of coordinates, including the context.
        """
        nearest, lengthscales = min(columns, NEAREST), self.lengthscales
        if lengthscales is None:
            longer = math.sqrt(max(columns, NEAREST) / NEAREST)
            lengthscales = tuple(longer * share for share in SHARES[nearest])
        noise_ratios = self.noise_ratios or NOISE_RATIOS[nearest]
        return dict(zip(PARTS, (lengthscales, self.rates, self.hazards, noise_ratios)))


class BankPrior:
    """The prior of a domain, and the K histories of the members that share a lengthscale.

    A member that never jumps has one history. A member that jumps has several histories, which
    differ in the time of the newest jump. Members that never jump come first, followed by the
    histories of each member that jumps.

    Args:
        bank: The candidate processes.
        lower: Lower corner, `d`.
        upper: Upper corner, `d`.
        starts: Points that cover the unit cube, `STARTS x d`, or indices of arms, int64.
        variance: Prior variance: the number 1 for each of M arms, `M`; the scalar 1 for a box.
        context_dim: Number c of context coordinates, which have no bounds and come last.
        points: All arms in the unit cube, `M x d`; None on a box.
        groups: For each column and each coordinate of the context, the index of its parameter,
            `d + c`, int64; None if each is a parameter of its own.

    Attributes:
        lengthscales: Lengthscales as fractions of the ranges, `L x 1 x 1`.
        sizes: Numbers of lengthscales, rates, hazards and noise ratios.
        rate: Rate of change ε of each history, `K`.
        hazard: Probability h of a jump for each history, `K`.
        noise: Noise ratio ρ of each history, `K`.
        log_lasts: ln(1 - ε) of each history, `K`.
        log_stays: ln(1 - h) of each history, `K`.
        parameters: Number of parameters.
        member: Index of the combination of rate, hazard and noise ratio, `K`, int64; the noise
            ratio varies fastest.
        never_jumping: Number of members that never jump.
    """

    scale = 1.0

    def __init__(
        self,
        bank: Bank,
        lower: Tensor,
        upper: Tensor,
        starts: Tensor,
        variance: Tensor,
        context_dim: int = 0,
        points: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> None:
        self.bank, self.lower, self.upper, self.points = bank, lower, upper, points
        self.starts, self.variance, self.context_dim = starts, variance, context_dim
        every = torch.arange(len(lower) + context_dim, device=lower.device)
        self.groups = every if groups is None else groups
        self.parameters = int(self.groups.max()) + 1
        self.scratch = Scratch()
        values = bank.values(len(lower) + context_dim)
        lengthscales, *parts = (variance.new_tensor(part) for part in values.values())
        self.lengthscales = lengthscales[:, None, None]
        self.sizes = tuple(map(len, values.values()))
        rate, hazard, noise = (part.reshape(-1) for part in torch.meshgrid(*parts, indexing="ij"))
        never_jump = (hazard == 0).nonzero().squeeze(-1)
        jumping = (hazard > 0).nonzero().squeeze(-1).repeat_interleave(bank.histories)
        self.member, self.never_jumping = torch.cat([never_jump, jumping]), len(never_jump)
        self.rate, self.hazard, self.noise = (part[self.member] for part in (rate, hazard, noise))
        self.log_lasts, self.log_stays = torch.log1p(-self.rate), torch.log1p(-self.hazard)

    @cached_property
    def _in_unit(self) -> bool:
        """Whether the domain is the unit cube."""
        return bool(((self.lower == 0) & (self.upper == 1)).all())

    @property
    def arms(self) -> int:
        """Number M of arms; 1 on a box."""
        return self.variance.numel()

    @property
    def normals(self) -> int:
        """Number of normal variates of a sample: one selects a member, the rest a function."""
        return 2 + self.slots + 2 * FREQUENCIES

    @property
    def slots(self) -> int:
        """Largest number of slots for measured points: those before a block, and of a block."""
        return 2 * self.bank.points + GROWTH

    def unlearned(self) -> BankPrior:
        """The prior before learning: this object, because a mixture learns only weights."""
        return self

    def at(self, choice: Tensor, units: MixtureUnits) -> Tensor:
        """Map choices to the unit cube, multiplied by relevances, `T x q x (d + c)`.

        A context has no bounds; a sigmoid maps it to (0, 1). About half of (0, 1) covers contexts
        within a standard deviation of the mean context of the first measurements.

        Args:
            choice: Arms, `T x q`, int64; or points with their context, `T x q x (d + c)`.
            units: The units of the trials.
        """
        return self._in_cube(choice, units) * units.relevance.unsqueeze(-2)

    def arms_at(self, units: MixtureUnits) -> Tensor:
        """All arms in the unit cube, multiplied by relevances, `T x M x d`."""
        assert self.points is not None
        return self.points * units.relevance.unsqueeze(-2)

    def _in_cube(self, choice: Tensor, units: MixtureUnits) -> Tensor:
        """Map choices to the unit cube, `T x q x (d + c)`."""
        if self.points is not None:
            return self.points[choice]
        if not self.context_dim:
            return choice if self._in_unit else (choice - self.lower) / (self.upper - self.lower)
        chosen, context = torch.tensor_split(choice, [len(self.lower)], dim=-1)
        centre, spread = (
            part.unsqueeze(-2) for part in (units.context_centre, units.context_spread)
        )
        context = torch.sigmoid((context - centre) / spread)
        return torch.cat([(chosen - self.lower) / (self.upper - self.lower), context], -1)

    def by_chosen(self, by: Tensor, units: MixtureUnits) -> Tensor:
        """Convert derivatives at :meth:`at` to derivatives in the domain, `T x q x d`."""
        d = len(self.lower)
        by = by[..., :d] * units.relevance[:, None, :d]
        return by if self._in_unit else by / (self.upper - self.lower)


def prior_on_box(
    bank: Bank,
    lower: Tensor,
    upper: Tensor,
    context_dim: int,
    among: tuple[Tensor, Tensor] | None = None,
    ranged: int = 0,
    groups: Tensor | None = None,
) -> BankPrior:
    """The prior of the candidate processes on the box between two corners.

    Args:
        bank: The candidate processes.
        lower: Lower corner, `d`.
        upper: Upper corner, `d`.
        context_dim: Number c of context coordinates, which have no bounds and come last.
        among: Points of the unit cube that fill the feasible set, and points that reach its
            boundary, each `n x d`, see ``Search.among``; None if the whole cube is feasible.
        ranged: Number of context coordinates with given ranges, which are [0, 1].
        groups: For each coordinate, the index of its parameter, as for :class:`BankPrior`.
    """
    if among is None:
        cloud = even_points(CANDIDATES, len(lower))
        cloud[0] = 0.5
        starts = cloud[filling(cloud)]
    else:
        starts = among[0][:STARTS]
    starts, one = starts.to(lower), lower.new_ones(())
    lower, upper = (pad(end, (0, ranged), value=by) for end, by in ((lower, 0.0), (upper, 1.0)))
    return BankPrior(bank, lower, upper, starts, one, context_dim, groups=groups)


def prior_on_arms(bank: Bank, X: Tensor) -> BankPrior:
    """The prior of the candidate processes on some arms, `M x d`."""
    lower, upper = X.amin(0), X.amax(0)
    # A column that is constant over the arms has no range.
    upper = torch.where(upper > lower, upper, lower + 1)
    U = (X - lower) / (upper - lower)
    starts, variance = filling(U.cpu()).to(X.device), X.new_ones(len(X))
    return BankPrior(bank, lower, upper, starts, variance, points=U)


def filling(U: Tensor) -> Tensor:
    """Select points, out of `M x d`, that cover the cube, and return their indices.

    The first selected point is closest to the middle of the cube. Each further point is far from
    the points selected before. A face of the cube counts like a selected point that is twice as far
    away as the face.
    """
    walls = 2 * torch.minimum(U, 1 - U).amin(-1)
    # Points tie on regular grids; coarse distances make the choice independent of rounding errors.
    first = ((U - 0.5).square().sum(-1) * 1e6).round().argmin()
    chosen = [first]
    nearest = (U - U[first]).norm(dim=-1)
    for _ in range(STARTS - 1):
        following = (torch.minimum(nearest, walls + 1e-3 * nearest) * 1e6).round().argmax()
        chosen.append(following)
        nearest = torch.minimum(nearest, (U - U[following]).norm(dim=-1))
    return torch.stack(chosen)


class MixtureUnits(NamedTuple):
    """The units of trials, from their measurements."""

    centre: Tensor
    """Mean of the first measurements, `batch_shape`."""
    spread: Tensor
    """Standard deviation of the first measurements, positive, `batch_shape`."""
    clock: Tensor
    """The median time between the first measurements or, after a correction, between all
    measurements, `batch_shape`, float64."""
    context_centre: Tensor
    """Mean of the context of the first measurements, `batch_shape x c`."""
    context_spread: Tensor
    """Standard deviation of the context of the first measurements, `batch_shape x c`."""
    ready: Tensor
    """Whether there were enough measurements with different values, `batch_shape`, bool."""
    relevance: Tensor
    """Factor by which each coordinate is multiplied, 1 if all parameters are equally relevant,
    `batch_shape x (d + c)`."""
