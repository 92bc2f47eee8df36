"""Which processes are possible, their prior on a domain before any data, and their units.

The units are a mean and a scale of y and of the context, and a clock. They come from the first
measurements of a trial, so that y, context and time may be in any units. All that are made at one
time count together, so that their order makes no difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.linalg import leading
from botorch_tv.gp.mixture.features import (
    Features,
    StackedInducing,
    StackedProducts,
    directions,
    features,
    features_among,
    stacked,
)
from botorch_tv.gp.tensors import Scratch
from botorch_tv.validation import require, require_integer, require_number

PARTS = ("lengthscale", "rate", "hazard", "noise_ratio")
"""The parts in which members differ."""
NEAREST = 3
"""Up to so many coordinates lengthscales are the shares of a side given below; beyond, points are
further apart, and lengthscales grow with the root of the dimension."""
SHARES = {1: (0.05, 0.1, 0.2, 0.4), 2: (0.1, 0.2, 0.4), NEAREST: (0.2, 0.4, 0.8)}
MOST_COLUMNS = 20
"""Coordinates, context included, up to which features have been tried."""
STARTS = 64
"""Points that fill the domain before its units are known; then the first again."""
CANDIDATES = 1024
"""Points among which these are sought."""
FIRST = 4
"""Measurements that set the units unless said. Each costs about a round of random search. More
of them find narrow peaks more often where little is explored; at the usual width the band does."""
TOGETHER = 32
"""Measurements up to which those at the time of the one that completed the units count for them,
too: with each everything is learned anew."""
APART = 3.0
"""How far the clock may be from the median time between all measurements, as a factor; that
between rates that a bank holds possible. Beyond it the rates are no longer those of the data."""


@dataclass(frozen=True)
class Bank:
    """The candidate processes of the adaptive strategy.

    Rates and hazards count per median time between measurements, lengthscales in shares
    of the sides of the domain, noise variances in those of the objective's. All combinations are
    members, equally likely at first.

    Args:
        rates: Rates of change ε, from 0 to below 1.
        hazards: Chances h of a jump, from 0 to below 1.
        lengthscales: Lengthscales ℓ, positive; by the number of coordinates unless given.
        noise_ratios: Noise ratios ρ, positive.
        outliers: Chance that a measurement is wrong and says nothing of the objective, from 0 to
            below 1.
        histories: Histories of jumps that are kept of a member that jumps; the likeliest, and the
            two whose jumps are the newest.
        features: Most features per lengthscale. What they leave out of the prior variance counts
            as noise, and as unknown.
        tolerance: Error of the kernel that features may have where they are enough.

    Raises:
        ValueError: If a list is empty, repeats itself, or holds a number out of range.
    """

    rates: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1)
    hazards: tuple[float, ...] = (0.0, 0.02)
    lengthscales: tuple[float, ...] | None = None
    noise_ratios: tuple[float, ...] = (0.01, 0.05)
    outliers: float = 0.005
    histories: int = 4
    features: int = 320
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        chance = "[0, 1)", "it is a chance per unit of time, 0.01 for one in a hundred."
        positive = "[1e-6, 1e6]", "give a share such as 0.1."
        rules = dict(zip(PARTS, (positive, chance, chance, positive)))
        for part, (limit, fix) in rules.items():
            name = f"{part}s"
            values = getattr(self, name)
            if name == "lengthscales" and values is None:
                continue
            own = tuple(
                float(require_number(f"Bank: {name}", value, limit, fix)) for value in values
            )
            require(
                len(set(own)) == len(own) > 0,
                f"Bank: {name} is {values!r}, but it must be numbers that differ; {fix}",
            )
            object.__setattr__(self, name, own)
        require_number("Bank: outliers", self.outliers, *chance)
        require_integer("Bank: histories", self.histories, 4, "fewer take noise for jumps.")
        require_integer("Bank: features", self.features, 8, "use 320.")
        require_number("Bank: tolerance", self.tolerance, "[1e-10, 0.1]", "use 0.001.")

    def lengthscales_of(self, columns: int) -> tuple[float, ...]:
        """Lengthscales for points of so many coordinates, in shares of the sides."""
        if self.lengthscales is not None:
            return self.lengthscales
        shares = SHARES[min(columns, NEAREST)]
        longer = math.sqrt(max(columns, NEAREST) / NEAREST)
        return tuple(longer * share for share in shares)

    def features_of(self, columns: int, like: Tensor) -> tuple[Features, ...]:
        """Features of the unit cube per lengthscale, in the dtype and on the device of ``like``."""
        return tuple(
            features(lengthscale, columns, self.tolerance, self.features, like)
            for lengthscale in self.lengthscales_of(columns)
        )

    def values(self, columns: int) -> dict[str, tuple[float, ...]]:
        """The values of each part, in the order of weights, for points of ``columns`` numbers."""
        parts = self.lengthscales_of(columns), self.rates, self.hazards, self.noise_ratios
        return dict(zip(PARTS, parts))


class BankPrior:
    """Features of a domain, and the members that share a lengthscale, as K histories of jumps.

    A member that never jumps has one history. One that does has several, which differ in when the
    newest jump came; they lie next to each other, behind the members that never jump.

    Args:
        bank: Which processes.
        lower: Lower corner, `d`.
        upper: Upper corner, `d`.
        features: Per lengthscale.
        starts: Points that fill the unit cube, `STARTS x d`, or numbers of arms, int64.
        variance: Ones, one per arm, or one for all points of a box.
        context_dim: Number c of coordinates without bounds, behind the others.
        tables: Features of all arms per lengthscale, the constant's behind, `M x (r + 1)`, and what
            they leave out, `M`; None on a box.

    Attributes:
        rate: ε, `K`.
        hazard: h, `K`.
        noise: ρ, `K`.
        member: Which combination of (rate, hazard, noise ratio), the last the fastest, `K`, int64.
        still: Histories of members that never jump.
    """

    scale = 1.0

    def __init__(
        self,
        bank: Bank,
        lower: Tensor,
        upper: Tensor,
        features: tuple[Features, ...],
        starts: Tensor,
        variance: Tensor,
        context_dim: int = 0,
        tables: tuple[tuple[Tensor, Tensor], ...] | None = None,
    ) -> None:
        self.bank, self.lower, self.upper, self.features = bank, lower, upper, features
        self.starts, self.variance, self.context_dim = starts, variance, context_dim
        self.tables, self.scratch = tables, Scratch()
        parts = (bank.rates, bank.hazards, bank.noise_ratios)
        axes = [torch.tensor(part, dtype=variance.dtype, device=variance.device) for part in parts]
        rate, hazard, noise = (part.reshape(-1) for part in torch.meshgrid(*axes, indexing="ij"))
        never_jump = (hazard == 0).nonzero().squeeze(-1)
        jumping = (hazard > 0).nonzero().squeeze(-1).repeat_interleave(bank.histories)
        self.member, self.never_jumping = torch.cat([never_jump, jumping]), len(never_jump)
        self.rate, self.hazard, self.noise = (part[self.member] for part in (rate, hazard, noise))

    @property
    def sizes(self) -> list[int]:
        """Features per lengthscale, the constant included."""
        if self.tables is not None:
            return [table.shape[-1] for table, _ in self.tables]
        return [features.size + 1 for features in self.features]

    @cached_property
    def _in_unit(self) -> bool:
        """Whether the domain is the unit cube; a search asks at every step."""
        return bool(((self.lower == 0) & (self.upper == 1)).all())

    @cached_property
    def stacked(self) -> StackedProducts | StackedInducing:
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
        chosen, context = torch.tensor_split(X, [len(self.lower)], dim=-1)
        context = torch.sigmoid((context - centre.unsqueeze(-2)) / spread.unsqueeze(-2))
        return torch.cat([(chosen - self.lower) / (self.upper - self.lower), context], -1)

    def at(
        self, choice: Tensor, context_centre: Tensor, context_spread: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        """Features, and the variance they leave out, for every lengthscale.

        Args:
            choice: Arms, `T x q`, or points, `T x q x (d + c)`.
            context_centre: As for :meth:`unit`.
            context_spread: As for :meth:`unit`.

        Returns:
            Pairs of `T x q x (r + 1)`, the constant's behind, and `T x q`.
        """
        if self.tables is not None:
            return [(table[choice], missing[choice]) for table, missing in self.tables]
        U = self.unit(choice, context_centre, context_spread)
        return [with_constant(features.at(U)) for features in self.features]

    def by_chosen(self, by: Tensor) -> Tensor:
        """Derivatives by what is chosen, from those by its places in the unit cube, `* x d`."""
        return by if self._in_unit else by / (self.upper - self.lower)


def with_constant(phi: Tensor) -> tuple[Tensor, Tensor]:
    """Features with that of the constant behind, and the prior variance they leave out."""
    missing = (1 - phi.square().sum(-1)).clamp_min(0)
    return torch.nn.functional.pad(phi, (0, 1), value=1.0), missing


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
        starts, own = cloud[filling(cloud)], bank.features_of(columns, lower)
    else:
        starts, reaching = among[0][:STARTS], among[1].cpu()
        every = torch.cat([reaching, even_points(len(reaching), columns)[:, len(lower) :]], -1)
        own = tuple(
            features_among(every, lengthscale, bank.tolerance, bank.features, lower)
            for lengthscale in bank.lengthscales_of(columns)
        )
    variance = lower.new_ones(())
    return BankPrior(bank, lower, upper, own, starts.to(lower), variance, context_dim)


def prior_on_arms(bank: Bank, X: Tensor) -> BankPrior:
    """The prior on some arms, `M x d`."""
    lower, upper = X.amin(0), X.amax(0)
    # A column that is the same for all arms tells nothing.
    upper = torch.where(upper > lower, upper, lower + 1)
    U = (X - lower) / (upper - lower)
    own = bank.features_of(X.shape[-1], X)
    tables = []
    for part in own:
        waves = part.at(U)
        table, _ = with_constant(waves @ directions(waves, 0.1 * bank.tolerance))
        tables.append((table, with_constant(waves)[1]))
    starts, variance = filling(U.cpu()).to(X.device), X.new_ones(len(X))
    return BankPrior(bank, lower, upper, own, starts, variance, tables=tuple(tables))


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


class MixtureUnits(NamedTuple):
    """Found from the first measurements."""

    centre: Tensor
    """Their mean, `batch_shape`."""
    spread: Tensor
    """Their standard deviation, positive, `batch_shape`."""
    clock: Tensor
    """The median time between them, or between all so far where that was looked at again and lay
    far from it, `batch_shape`, float64."""
    context_centre: Tensor
    """Mean of the context, `batch_shape x c`."""
    context_spread: Tensor
    """Its standard deviation, `batch_shape x c`."""
    ready: Tensor
    """Whether there were enough, and they differed, `batch_shape`, bool."""


Measured = tuple[Tensor, Tensor, Tensor, Tensor]
"""Measurements in order of time: y, `T x n`; which of them did not fail, `T x n`, bool; when they
were made, `T x n`; and their context, `T x n x c`."""


def units_of(measured: Measured, least: int) -> MixtureUnits:
    """Units from all that has been measured so far, of which ``least`` are enough."""
    y, good, time, context = measured
    number = good.sum(-1)
    share = good.to(y) / number.clamp_min(1).unsqueeze(-1)
    centre = (share * y).sum(-1)
    spread = (share * (y - centre.unsqueeze(-1)).square()).sum(-1).sqrt()
    # What differs by rounding alone does not differ.
    largest = (good * y.abs()).amax(-1) if y.shape[-1] else torch.zeros_like(centre)
    differs = spread > 1e3 * torch.finfo(y.dtype).eps * largest
    middle = (share.unsqueeze(-1) * context).sum(-2)
    around = (share.unsqueeze(-1) * (context - middle.unsqueeze(-2)).square()).sum(-2).sqrt()
    return MixtureUnits(
        centre=centre,
        spread=torch.where(differs, spread, 1.0),
        clock=median_gap(time, good),
        context_centre=middle,
        context_spread=torch.where(around > 0, around, 1.0),
        ready=(number >= least) & differs,
    )


def checks_clock(number: int) -> bool:
    """Whether the clock is checked after this many rounds: 8, 16, 32, ..."""
    return number >= 2 * FIRST and number & (number - 1) == 0


def units_now(
    units: MixtureUnits, settled: bool, measured: Measured, least: int
) -> tuple[MixtureUnits, bool, Tensor]:
    """Units after the newest measurement; they are final once time has moved on.

    But for the clock, which is replaced by that of all measurements so far, if the two differ much.
    Otherwise a test run of seconds before a night of hours, or the first suggestions, which take
    hardly any time, would set a unit in which no rate is slow enough.

    Args:
        units: Before it.
        settled: Whether all trials are known to have theirs.
        measured: All so far.
        least: Measurements that are enough.

    Returns:
        The units, whether they are settled now, and which trials must relearn everything, as theirs
        have changed, `T`, bool.
    """
    y, good, time, context = measured
    n, anew = y.shape[-1], torch.zeros_like(units.ready)
    if not settled:
        found = units_of(measured, least)
        earlier = units_of((y, good & (time < time[:, -1:]), time, context), least)
        few = good.sum(-1) <= TOGETHER
        moving = ~earlier.ready & (~units.ready | (found.ready & few))
        pairs = zip(found, units)
        units = MixtureUnits(
            *(torch.where(leading(moving, new.dim()), new, old) for new, old in pairs)
        )
        if n >= least:
            # A device is waited for in these rounds alone.
            settled, anew = not bool(moving.any()), moving & units.ready & good[:, -1]
    if checks_clock(n):
        clock = median_gap(time, good)
        ratio = clock / units.clock
        apart = units.ready & ((ratio > APART) | (ratio < 1 / APART))
        units, anew = units._replace(clock=torch.where(apart, clock, units.clock)), anew | apart
    return units, settled, anew


def units_after(measured: Measured, least: int) -> MixtureUnits:
    """The units of trials that were told these measurements one by one."""

    def first(rows: int) -> Measured:
        y, good, time, context = measured
        return y[:, :rows], good[:, :rows], time[:, :rows], context[:, :rows]

    units, settled = units_of(first(0), least), False
    for rows in range(max(1, least), measured[0].shape[-1] + 1):
        units, settled, _ = units_now(units, settled, first(rows), least)
    return units
