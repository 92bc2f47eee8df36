"""Where a choice is allowed, and how probable it is that a measurement there is of use.

A choice maximises the product of its score and of a weight, the probability that the measurement is
feasible: that it succeeds, or the root of the probability that it keeps the limits on outcomes.
Where feasibility is too unlikely, a penalty pushes the choice back to allowed points.
:func:`promise` is this rule, on grids and on boxes.

:class:`Success` is the probability that a measurement succeeds, learned from successes and failures
alone. A failed measurement gives no value of the objective. The cause of a failure may be the
point, or the machine, which may fail from time to time at any point. There are several hypotheses
about failures; the weight of a hypothesis depends on how well it predicts each outcome, given the
earlier outcomes. A hypothesis states either that failures do not depend on the point, or that
success is a Gaussian process over the domain with a given lengthscale. The hypotheses about
failures also differ in the rate at which old outcomes are forgotten.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import add, mul
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.linalg import vector_norm

from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.points import Pull
from botorch_tv.gp.search import raw_points
from botorch_tv.gp.tensors import OfTrials
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.state import Now
from botorch_tv.validation import require, require_number

Cost = float | Mapping[str, float] | Callable[[Any, Any], float]
"""Type of the cost of a move, see :class:`MoveCost`."""
LIKELY = 0.5
"""A point is suggested only if its probability of success exceeds this fraction of the highest
probability in the domain. The limit is relative, because a machine may fail most of the time at all
points. A point is recommended only if its probability itself exceeds this value."""
PRIOR = 0.8
"""Probability of success before any outcome."""
LEVEL, LOCAL, NOISE = 0.3, 1.0, 0.2
"""Prior variances of the three parts of an outcome's label: the part common to all points, the
local part, and the noise of a single outcome."""
LENGTHSCALES = (0.15, 0.45)
"""Lengthscales of the local part, as fractions of the ranges, in up to two dimensions."""
RATES = (0.0, 0.05)
"""Rates at which outcomes are forgotten, per median time between outcomes."""
GLITCH = 0.9
"""Prior probability that failures do not depend on the point."""
LEAST = 0.02
"""Smallest probability that a hypothesis assigns to an outcome."""
NEWEST = 200
"""Number of newest outcomes that are used."""
STARTS = 64


class Feasible(ABC):
    """The probability that a measurement is feasible, and where a choice is allowed.

    Trials are flattened to one dimension; an object for a single trial serves any number of trials.
    """

    @abstractmethod
    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """The weight of the score, and the risk as a multiple of the allowed risk.

        The weight is the probability that a measurement is feasible, or a root of it. The risk is
        the probability that a measurement is not feasible. A choice is allowed where the second
        result is at most 1.

        Args:
            X: Points with their context, `trials x q x (d + c)`.

        Returns:
            Two tensors, `trials x q`, differentiable in the points.
        """

    def allowed(self, X: Tensor) -> Tensor:
        """Whether points `trials x q x (d + c)` may be chosen, `trials x q`, bool."""
        return self.judge(X)[1] <= 1

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        """The results of :meth:`judge`, and a :data:`Pull` of derivatives with respect to them.

        Args:
            X: Points with their context, `trials x q x (d + c)`.
        """
        with torch.enable_grad():
            X = X.detach().requires_grad_()
            p, risk = self.judge(X)

        def pull(by_p: Tensor | float, by_risk: Tensor | float) -> Tensor:
            with torch.enable_grad():
                total = (by_p * p + by_risk * risk).sum()
            return torch.autograd.grad(total, X)[0]

        return p.detach(), risk.detach(), pull

    def select(self, trials: Tensor) -> Feasible:
        """The feasibility in some of the trials, given by their indices."""
        return self

    def strict(self) -> Feasible:
        """The feasibility for recommendations, which are more careful than suggestions."""
        return self


@dataclass(frozen=True, eq=False)
class AllOf(OfTrials, Feasible):
    """Several conditions, all of which must hold.

    Their weights are multiplied. The risk is (Σ risk¹⁶)^(1/16), a smooth form of the largest.

    Args:
        parts: The conditions, at least one.
    """

    parts: Sequence[Feasible]

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        probabilities, risks = zip(*(part.judge(X) for part in self.parts))
        return reduce(mul, probabilities), _largest(risks)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        p, risks, pulls = zip(*(part.slopes(X) for part in self.parts))
        whole, risk = reduce(mul, p), _largest(risks)

        def pull(by_p: Tensor | float, by_risk: Tensor | float) -> Tensor:
            others = [reduce(mul, [q for q in p if q is not own], by_p) for own in p]
            weights = [by_risk * (own / risk) ** (STEEP - 1) for own in risks]
            slopes = [own(*by) for own, *by in zip(pulls, others, weights)]
            d = min(by.shape[-1] for by in slopes)
            return reduce(add, [by[..., :d] for by in slopes])

        return whole, risk, pull

    def strict(self) -> Feasible:
        return AllOf([part.strict() for part in self.parts])


class Asked(NamedTuple):
    """When a choice or a recommendation is made, under which conditions, and where.

    Attributes:
        now: Time, a scalar or `batch_shape`, as in :meth:`Strategy.ask`.
        context: The context, `batch_shape x c`.
        feasible: Where a choice is allowed; None for everywhere.
        cost: The cost of each choice, which its score must exceed; None for none.
    """

    now: Now = None
    context: Tensor | None = None
    feasible: Feasible | None = None
    cost: MoveCost | None = None


def all_of(*parts: Feasible | None) -> Feasible | None:
    """The conjunction of conditions; None stands for a condition that always holds."""
    given = [part for part in parts if part is not None]
    return AllOf(given) if len(given) > 1 else given[0] if given else None


STEEP = 16
"""Power of the risk in :func:`promise`. At 8, a recommendation gave up the best bound for a
point of lower risk, though both were allowed."""


def promise(score: Tensor, lowest: Tensor, p: Tensor, risk: Tensor, unit: float) -> Tensor:
    """The score of each candidate, given its feasibility; the largest is chosen.

        p (score - lowest) / (1 + risk¹⁶) - unit max(0, 1 - 1 / risk)

    The lowest score of the domain is subtracted, so that a higher score and a higher weight p
    both increase the first term. It is smooth, and nearly 0 where the risk exceeds the allowed risk
    by a quarter. Where no point is allowed, the second term leads to the smallest risk.

    Args:
        score: Scores, `... x q`.
        lowest: The lowest score in the domain, `... x 1`.
        p: Weights of the scores, such as probabilities of feasibility, `... x q`.
        risk: The risk as a multiple of the allowed risk, `... x q`.
        unit: The unit of scores.
    """
    first = p * (score - lowest).clamp_min(0) / (1 + risk**STEEP)
    return first - unit * (1 - 1 / risk.clamp_min(1))


def promise_slope(
    above: Tensor, p: Tensor, risk: Tensor, unit: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of :func:`promise` with respect to score, probability and risk.

    Args:
        above: max(0, score - lowest), `... x q`.
        p: As in :func:`promise`.
        risk: As in :func:`promise`.
        unit: As in :func:`promise`.
    """
    weight = 1 / (1 + risk**STEEP)
    by_risk = -STEEP * p * above * risk ** (STEEP - 1) * weight.square()
    by_risk = by_risk - torch.where(risk > 1, unit / risk.square(), 0.0)
    return torch.where(above > 0, p * weight, 0.0), above * weight, by_risk


def _largest(risks: Sequence[Tensor]) -> Tensor:
    """A smooth form of the largest of several risks."""
    least = torch.finfo(risks[0].dtype).tiny
    total: Tensor = sum(risk**STEEP for risk in risks) + least  # type: ignore[assignment]
    return total ** (1 / STEEP)


class Success(Feasible):
    """The probability that a measurement succeeds now.

    Outcomes are labels ±1. Under each hypothesis the labels are a noisy Gaussian process with mean
    2 · PRIOR - 1 and covariance (LEVEL + LOCAL exp(-|u - u'|² / 2ℓ²)) (1 - ε)^(|t - t'| / 2) on
    points u of the unit cube, with lengthscale ℓ and rate of forgetting ε. In some hypotheses LOCAL
    is replaced by 0, so failures do not depend on the point. A measurement at a point succeeds with
    probability (1 + mean) / 2.

    A choice is allowed where this probability exceeds half of the highest probability in the
    domain; a recommendation where it exceeds one half, unless failure is likelier everywhere.

    Args:
        X: At least one measured point, without context, in order of time, `trials x n x d`.
        ok: Whether the measurements succeeded, `trials x n`, bool.
        time: Times of the measurements, `trials x n`, float64.
        corners: Corners of the domain, `2 x d`.
        now: The current time, no earlier than the times of the measurements, `trials`, float64.
    """

    def __init__(self, X: Tensor, ok: Tensor, time: Tensor, corners: Tensor, now: Tensor) -> None:
        X, ok, time = X[:, -NEWEST:], ok[:, -NEWEST:], time[:, -NEWEST:]
        self._lower, self._upper = corners.to(X)
        self._U, label = self._unit(X), 2.0 * ok.to(X) - 1
        now = now.unsqueeze(-1)
        # If all outcomes have the same time, the unit of time is the time from the outcomes to now.
        alone = time[:, :1] == time[:, -1:]
        gap = torch.where(
            alone.squeeze(-1), median_gap(torch.cat([time, now], -1)), median_gap(time)
        )
        age = (now - time) / gap.unsqueeze(-1)
        apart = torch.cdist(self._U, self._U).square()
        reach = math.sqrt(max(X.shape[-1], 2) / 2)
        self._lengths, weights, evidence = list[float](), [], []
        for length, rate in product((*LENGTHSCALES, 0.0), RATES):
            stays = 0.5 * math.log1p(-rate)
            K = torch.full_like(apart, LEVEL)
            if length:
                K += LOCAL * torch.exp(-0.5 * apart / (reach * length) ** 2)
            K *= torch.exp(stays * (age.unsqueeze(-1) - age.unsqueeze(-2)).abs()).to(X)
            K.diagonal(dim1=-2, dim2=-1).add_(NOISE)
            L = torch.linalg.cholesky(K)
            residual = (label - (2 * PRIOR - 1)).unsqueeze(-1)
            white = torch.linalg.solve_triangular(L, residual, upper=False)
            alpha = torch.linalg.solve_triangular(L.mT, white, upper=True).squeeze(-1)
            self._lengths.append(reach * length)
            weights.append(alpha * torch.exp(stays * age).to(X))
            # The prediction of each outcome from the earlier outcomes.
            before = label - L.diagonal(dim1=-2, dim2=-1) * white.squeeze(-1)
            chance = ((1 + label * before) / 2).clamp(LEAST, 1 - LEAST)
            prior = 1 - GLITCH if length else len(LENGTHSCALES) * GLITCH
            evidence.append(chance.log().sum(-1) + math.log(prior))
        # Without any failure, as if there were no outcomes: all points alike.
        failed = ~ok.all(-1, keepdim=True)
        self._weights = torch.stack(weights) * failed  # hypotheses x trials x n
        self._shares = torch.stack(evidence).softmax(0)  # hypotheses x trials
        points = self._lower + (self._upper - self._lower) * raw_points(STARTS, X.shape[-1], 0, X)
        every = torch.cat([X, points.expand(len(X), -1, -1)], 1)
        self._highest = self.probability(every).amax(-1, keepdim=True).clamp_min(LEAST)

    def probability(self, X: Tensor) -> Tensor:
        """The probability of success at points `trials x q x (d + c)`, `trials x q`."""
        U = self._unit(X[..., : len(self._lower)])
        apart = torch.cdist(U, self._U).square()
        total: Tensor | float = 0.0
        for share, length, weight in zip(self._shares, self._lengths, self._weights):
            mean = 2 * PRIOR - 1 + LEVEL * weight.sum(-1, keepdim=True)
            if length:
                local = torch.exp(-0.5 * apart / length**2) @ weight.unsqueeze(-1)
                mean = mean + LOCAL * local.squeeze(-1)
            total = total + share.unsqueeze(-1) * (1 + mean.clamp(-1, 1)) / 2
        assert isinstance(total, Tensor)
        return total.expand(X.shape[:-1])

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        p = self.probability(X)
        return p, (1 - p) / (1 - LIKELY * self._highest)

    def select(self, trials: Tensor) -> Success:
        other = copy.copy(self)
        other._U, other._highest = self._U[trials], self._highest[trials]
        other._weights, other._shares = self._weights[:, trials], self._shares[:, trials]
        return other

    @property
    def fails(self) -> Tensor:
        """Whether failure is likelier than success at every point, `trials`, bool."""
        return self._highest.squeeze(-1) <= LIKELY

    def strict(self) -> Success:
        other = copy.copy(self)
        other._highest = torch.where(self._highest <= LIKELY, self._highest, 1.0)
        return other

    def _unit(self, X: Tensor) -> Tensor:
        U: Tensor = (X - self._lower) / (self._upper - self._lower)
        return U


def corners_of(domain: Domain) -> Tensor:
    """The corners of a domain, `2 x d`; no range is empty."""
    if isinstance(domain, Box):
        return domain.bounds
    assert isinstance(domain, Grid)
    corners = torch.stack([domain.X.amin(0), domain.X.amax(0)])
    corners[1] += corners[0] == corners[1]
    return corners


class MoveCost:
    """The cost of a move from a setting, in the units of y.

    Numbers c_p cost Σ_p c_p |x_p - at_p|, with distances as shares of the ranges; on a logarithmic
    scale, of the range of logarithms. Any two values of an unordered
    :class:`~botorch_tv.strategies.parameters.Choice` are a range apart. A function has no
    derivative: a box is searched as if moves were free, and then on the way back to the setting.

    Args:
        domain: The domain.
        at: The setting, `d`; a context may follow.
        cost: A number for all parameters; numbers by name, 0 for others, where coordinates without
            names are called x0, x1, ...; or a function of two settings, from and to, as dicts or,
            without names, as lists.

    Attributes:
        rates: The columns of each parameter, and its number; 0 for a function.

    Raises:
        ValueError: If a parameter is unknown, or if a number is negative or not finite.
    """

    def __init__(self, domain: Domain, at: Tensor, cost: Cost) -> None:
        named = domain.named_search if isinstance(domain, Box) else None
        self.at, self._function = at[: domain.dim], cost if callable(cost) else None
        self._ranges = corners_of(domain).to(at).diff(dim=0)[0]
        self._shown: Any = Tensor.tolist
        parts = {f"x{n}": slice(n, n + 1) for n in range(domain.dim)}
        if named is not None:
            self._shown = getattr(named.space, "named", named.space.params)
            parts = {name: place for name, _, place in named.space.parts}
        each = 0.0 if callable(cost) else cost
        given = each if isinstance(each, Mapping) else dict.fromkeys(parts, each)
        for name, rate in given.items():
            require(name in parts, f"move_cost names {name!r}; the parameters are {[*parts]}.")
            require_number(f"move_cost of {name}", rate, "[0, inf)", "give units of y per range.")
        self.rates = [(parts[name], rate) for name, rate in given.items()]

    def __call__(self, X: Tensor) -> Tensor:
        """The cost of moves to points `* x (d + c)`, `*`, with derivatives for numbers alone."""
        X = X[..., : len(self.at)]
        if self._function is not None and not X.requires_grad:
            here, rows = self._shown(self.at), X.reshape(-1, len(self.at))
            costs = [float(self._function(here, self._shown(row))) for row in rows]
            return X.new_tensor(costs).view(X.shape[:-1])
        moved = (X - self.at) / self._ranges
        every = [rate * vector_norm(moved[..., place], dim=-1) for place, rate in self.rates]
        return torch.stack(every).sum(0)
