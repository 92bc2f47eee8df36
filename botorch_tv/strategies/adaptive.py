"""The adaptive strategy, which needs only a domain and a clock."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, Logarithmic, UpperConfidence, Width
from botorch_tv.forgetting import Static
from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.data import Prior
from botorch_tv.gp.mixture.bank import (
    CANDIDATES,
    FIRST,
    MOST_COLUMNS,
    PARTS,
    STARTS,
    Bank,
    BankPrior,
    prior_on_arms,
    prior_on_box,
)
from botorch_tv.gp.mixture.posterior import (
    ArmMixture,
    MixtureInference,
    PointMixture,
    bank_prior,
    running_mixture,
)
from botorch_tv.gp.process import Process
from botorch_tv.gp.random import Draws
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates import Decision
from botorch_tv.strategies.checks import fingerprinted
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.rounds import ProcessStrategy
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require, require_integer, shown, span_text

LIKELY = 0.5
"""Probability from which a statement is called probable."""
SURE = 0.95
"""Probability from which a statement is made without "probably". Below it the prior probability is
given as well, since the posterior may differ little from it."""

LEARNED = 0.05
"""A jump that was not seen is mentioned if its probability exceeds the prior's by this much."""


def _guessed(share: float, presumed: float) -> tuple[str, str]:
    """The word "probably" or nothing, and the probability, if need be with the prior's."""
    if share >= SURE:
        return "", _chance(share)
    return "probably ", f"{_chance(share)}; before any measurement {_chance(presumed)}"


def _chance(share: float) -> str:
    """A probability in percent, never 0 or 100."""
    if share > 0.99:
        return "more than 99 %"
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "less than 1 %"


def _beyond(
    share: Tensor, values: Sequence[float], words: tuple[str, str], least: float = LIKELY
) -> str:
    """What is added to a number as most of the weight lies at an edge of a bank, beyond which the
    truth may lie; empty where it does not.

    Args:
        share: The weights.
        values: The values they belong to.
        words: For the smallest of these, and for the largest.
        least: Share of the weight from which the smallest value counts as the edge. For noise this
            is nearly all of it, since one of two values always has more than half. For the largest
            value half is enough, because drift and jumps explain part of what more noise would.
    """
    if len(values) < 2:
        return ""
    lowest, highest = (float(share[values.index(one(values))]) for one in (min, max))
    total = float(share.sum())
    return words[0] if lowest > least * total else words[1] if highest > LIKELY * total else ""


@dataclass(frozen=True, kw_only=True)
class Adaptive(ProcessStrategy):
    """A bandit without prior knowledge: a bank of processes, weighted by how well they predict.

    See :mod:`botorch_tv.gp.mixture` for the model. The first measurements fill the domain,
    each far from the previous measurements. Their mean, standard deviation and median time apart
    become the units of all later computations, so y, x and time may be in any units. After 8, 16,
    32, ... rounds the median time apart is checked again; if it has changed by more than a factor
    of three, everything is relearned in the new unit, so a test run of seconds does not set the
    rates of a night of hours. Predictions are the mixture's mean and variance; a sample is drawn
    from a randomly chosen member.

    Like every strategy it refuses an observation earlier than the newest; :class:`Loop` replays its
    log instead. It refuses ``tell(noise=)``: the scale of y is integrated out, so a variance in
    units of y is a different noise ratio under every scale, and no member could weight it exactly.
    ``init`` takes float64 only, and domains of up to 20 coordinates.

    Args:
        bank: The candidate processes.
        starts: Number of measurements that set the units; more are used if the first do not differ,
            or if others are made at the time of the last of them.
        width: The confidence schedule sqrt(beta_t).
        exploration: How the posterior becomes a choice; upper confidence bounds by default.
        maximize: False to minimise. Predictions stay in the units of y.

    Raises:
        ValueError: If an argument is of another type, or ``starts`` is out of range.
    """

    bank: Bank = field(default_factory=Bank)
    starts: int = FIRST
    width: Width = field(default_factory=Logarithmic)
    exploration: Exploration = field(default_factory=UpperConfidence)
    maximize: bool = True

    def __post_init__(self) -> None:
        require_integer("Adaptive: starts", self.starts, 2, "a spread takes two.")
        require(
            self.starts <= STARTS,
            f"Adaptive: starts is {self.starts}, but it is at most {STARTS}; use {FIRST}.",
        )
        kinds = {"bank": Bank, "width": Width, "exploration": Exploration, "maximize": bool}
        for name, kind in kinds.items():
            part = getattr(self, name)
            require(
                isinstance(part, kind),
                f"Adaptive: {name} is {shown(part)}, but it must be a {kind.__name__}.",
            )
        object.__setattr__(self, "width", copy.deepcopy(self.width))

    @functools.cached_property
    def process(self) -> Process:
        """A placeholder for inferences; kernels, noise and forgetting come from the bank."""
        return Process(
            kernel=torch.empty(0, 0, dtype=torch.float64, device="cpu"),
            noise=1.0,
            mean="estimated",
            decay=Static(),
            inflation=Static(),
            retention=(),
        )

    @functools.cached_property
    def _begun(self) -> tuple[str, ...]:
        parts = {"bank": self.bank, "starts": self.starts}
        return tuple(fingerprinted(f"{name} {part!r}", part) for name, part in parts.items())

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        require(
            dtype == torch.float64,
            f"Adaptive.init: dtype is {dtype}, in which covariances lose too many digits by their "
            "updates; use torch.float64.",
        )
        if domain.columns > MOST_COLUMNS:
            raise InputDataError(
                f"{domain!r} has {domain.columns} coordinates, context included, but a bank serves "
                f"up to {MOST_COLUMNS}; drop some, or use a strategy with a given kernel."
            )
        prior: BankPrior
        like = torch.empty((), dtype=dtype, device=device)
        if isinstance(domain, Grid):
            every = torch.arange(len(domain), device=device)
            prior = prior_on_arms(self.bank, domain.points(every, like))
        else:
            assert isinstance(domain, Box)
            lower, upper = domain.bounds.to(like)
            among = domain.search.among(CANDIDATES, domain.dim)
            prior = prior_on_box(self.bank, lower, upper, domain.context_dim, among)
        return self._initial(domain, prior, shape)

    def step(self, state: State) -> Tensor:
        """The time unit of rates, `batch_shape`; before it is set, the median time between data.

        Args:
            state: The current state.
        """
        running, log = running_mixture(state.data), state.history
        step = running.units.clock.view(state.time.shape).to(state.time)
        if running.settled:
            return step
        so_far = median_gap(log.time.tensor(), log.noise.tensor().isfinite())
        return torch.where(running.units.ready.view(state.time.shape), step, so_far)

    def _chosen(self, decision: Decision, draws: Draws) -> Suggestion:
        """The choice of a round; before the units are set, a point far from the earlier points.

        The posterior that chooses differs from the posterior that predicts in two ways. It assumes
        no jump since the newest measurement: a jump makes all points equal, but in a band it would
        favour points with a high mean. It omits the variance that features do not represent: no
        measurement reduces it, in four or more dimensions it is large, mostly at the walls, and all
        choices would go there.
        """
        running = running_mixture(decision.state.data)
        acts = running.units.ready
        # Without units there is nothing to search. Random numbers are drawn anyway: they must not
        # depend on other trials of the batch.
        domain = decision.state.domain
        fills = domain.search.fills if isinstance(domain, Box) else 0
        due = decision.state.told < max(self.starts, fills)
        if not self.draws and (due or (acts.device.type == "cpu" and not bool(acts.any()))):
            return decision.at(self._start(decision))
        choosing = self.inference_for(decision.state.domain, choosing=True)
        chosen = super()._chosen(replace(decision, inference=choosing), draws)
        if running.settled and isinstance(choosing, PointMixture):
            return chosen  # with its prediction
        choice = chosen.choice
        if not running.settled:
            use = acts if choice.dim() == acts.dim() else acts.unsqueeze(-1)
            choice = torch.where(use, choice, self._start(decision))
        return decision.at(choice)

    def _best(
        self, state: State, now: float | Tensor | None, context: Tensor | None, caution: float
    ) -> Tensor:
        """As in other strategies; before the units are set, the point of the best observation."""
        best, running = super()._best(state, now, context, caution), running_mixture(state.data)
        if running.settled or not state.told:
            return best
        log = state.history
        good = log.noise.tensor().isfinite()
        pending = ~running.units.ready.view(state.time.shape) & good.any(-1)
        y = log.y.tensor() if self.maximize else -log.y.tensor()
        index = torch.where(good, y, -math.inf).argmax(-1, keepdim=True)
        choice, domain = log.choice.tensor(), state.domain
        if not isinstance(domain, Box):
            return torch.where(pending, choice.gather(-1, index).squeeze(-1), best)
        X = choice.take_along_dim(index.unsqueeze(-1), -2).squeeze(-2)
        X = torch.cat([X[..., : domain.dim], best[..., domain.dim :]], -1)
        return torch.where(pending.unsqueeze(-1), X, best)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        if noise is not None:
            raise InputDataError(
                f"noise is {shown(noise)}, but the adaptive strategy estimates the noise in units "
                "of a scale that it estimates as well. Omit it and pass repeated readings "
                "separately; or use a strategy with a given kernel, such as tv_gp_ucb."
            )
        return self.process.noise

    @property
    def usual_noise(self) -> float:
        """NaN, since the strategy estimates the noise; see :meth:`model_noise`."""
        return math.nan

    def _start(self, decision: Decision) -> Tensor:
        """The next point while the domain is being filled."""
        state, domain = decision.state, decision.state.domain
        prior, shape = bank_prior(state.data), state.time.shape
        place = prior.starts[state.told % len(prior.starts)]
        choice = place.expand(shape) if place.dim() == 0 else place
        if isinstance(domain, Box):
            choice = domain.from_unit(place).expand(*shape, domain.dim)
            if decision.context is not None:
                choice = torch.cat([choice, decision.context], -1)
        return choice

    def inference_for(
        self, domain: Domain, prior: Prior | None = None, *, choosing: bool = False
    ) -> MixtureInference:
        """How the posterior is computed on a domain.

        Args:
            domain: The domain.
            prior: The prior there, which makes no difference here.
            choosing: Whether the posterior is for a choice instead of a prediction.
        """
        kind = PointMixture if isinstance(domain, Box) else ArmMixture
        samples = self.exploration.samples
        return kind(self.process, samples=samples, starts=self.starts, choosing=choosing)

    def prior_variance(self, state: State) -> float:
        """Estimated variance of the objective over the domain, of a single trial.

        Args:
            state: A state of one trial.
        """
        running = running_mixture(state.data).flat()
        return float(running.units.spread) ** 2 * float((running.weights * running.variances).sum())

    def predicts(self, state: State) -> Tensor:
        """Whether the units are set, `batch_shape`, bool; without units there are no predictions.

        Args:
            state: The current state.
        """
        return running_mixture(state.data).units.ready.view(state.time.shape).clone()

    def jump(self, state: State) -> Tensor:
        """Probability of a jump just before the newest measurement, `batch_shape`.

        Args:
            state: The current state.
        """
        running = running_mixture(state.data).flat()
        return running.jump_chance(running.time).view(state.time.shape)

    def describe(
        self, state: State, *, format_time: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        """What is believed now, in words, in the units of the data.

        Where most of the weight lies on the least or the largest value that the bank holds, nearly
        all on the least noise, it says "or less", or "or more": the truth may lie beyond.

        Args:
            state: Of one trial.
            format_time: Formats a time.
            unit: Of time, such as "hours".

        Raises:
            InputDataError: If the state has several.
        """
        if state.time.numel() != 1:
            raise InputDataError(
                f"the state has {state.time.numel()} trials, but one can be told of at a time; "
                "weights(state) is of all."
            )
        running = running_mixture(state.data).flat()
        if not bool(running.units.ready):
            log = state.history
            good = log.noise.tensor().isfinite().flatten()
            number = int(good.sum())
            if number < self.starts:
                return (
                    f"Nothing is believed yet: {number} of the first {self.starts} measurements, "
                    "which set the units."
                )
            value = float(log.y.tensor().flatten()[good][-1])
            return (
                f"Nothing is believed yet: all {number} measurements so far are {value:.6g}, and "
                "without a difference there is no scale. Until there is one, points fill the "
                "domain; if none is to be expected, look at how y is measured."
            )
        values = self.bank.values(state.domain.columns)
        shares = {name: one.flatten() for name, one in self.marginals(state).items()}
        parts = [self._drift(shares["rate"], float(running.units.clock), unit)]
        presumed = 1 - self.bank.hazards.count(0.0) / len(self.bank.hazards)
        still = running.scale.new_tensor(self.bank.hazards) == 0
        jumping = 1 - float(shares["hazard"][still].sum())
        jumped = float(running.jumped)
        if presumed and not math.isnan(jumped):
            parts.append(
                f"It jumped between the measurement of time {format_time(jumped)} and the one "
                f"before ({_chance(float(running.jumped_with))})."
            )
        elif presumed and jumping >= max(LIKELY, presumed + LEARNED):
            _, chance = _guessed(jumping, presumed)
            parts.append(f"It may jump ({chance}), but has not been seen to.")
        elif presumed:
            parts.append("It has not been seen to jump.")
        own, words = values["lengthscale"], (" or less", " or more")
        length = float((shares["lengthscale"] * running.scale.new_tensor(own).log()).sum().exp())
        noise, every = float(self.model_noise(state).sqrt()), values["noise_ratio"]
        parts.append(
            f"It varies by {math.sqrt(self.prior_variance(state)):.3g} over lengths of "
            f"{length:.2g} of the sides{_beyond(shares['lengthscale'], own, words)}; the noise of "
            f"a measurement is {noise:.2g}{_beyond(shares['noise_ratio'], every, words, SURE)} "
            "(standard deviations)."
        )
        return " ".join(filter(None, parts))

    def _drift(self, share: Tensor, clock: float, unit: str) -> str:
        """What is said of drift, given the weights of the rates; nothing without any above 0."""
        rate, presumed = share.new_tensor(self.bank.rates), self.bank.rates.count(0.0)
        moving, before = rate > 0, presumed / len(self.bank.rates)
        standing = float(share[~moving].sum())
        if before == 1:
            return ""
        if standing >= LIKELY:
            probably, chance = _guessed(standing, before)
            jumps = " but for jumps" if any(self.bank.hazards) else ""
            return f"It {probably}stands still{jumps} ({chance})."
        exponent = -(share * torch.log1p(-rate)).sum() / share[moving].sum()
        half_life = span_text(clock * 2 * math.log(2) / float(exponent), unit)
        # The slower, the longer.
        edge = _beyond(share[moving], rate[moving].tolist(), (" or more", " or less"))
        probably, chance = _guessed(1 - standing, 1 - before)
        return (
            f"It {probably}drifts ({chance}): {'if so, ' if probably else ''}its correlation with "
            f"what it was falls by half in {half_life}{edge}."
        )

    def marginals(self, state: State) -> dict[str, Tensor]:
        """Posterior weights of lengthscales, rates, hazards and noise ratios, `batch_shape x n`.

        Args:
            state: The current state.

        Returns:
            By name, the weights of the values that :meth:`Bank.values` lists.
        """
        share, axes = self.weights(state), range(-len(PARTS), 0)
        others = [[axis for axis in axes if axis != own] for own in axes]
        return {name: share.sum(own) for name, own in zip(PARTS, others)}

    def weights(self, state: State) -> Tensor:
        """Posterior weights, `batch_shape x lengthscales x rates x hazards x noise ratios`.

        Args:
            state: The current state.
        """
        running, bank = running_mixture(state.data).flat(), self.bank
        share = running.member_weights(bank_prior(state.data))
        parts = (bank.rates, bank.hazards, bank.noise_ratios)
        return share.view(*state.time.shape, share.shape[-2], *(len(part) for part in parts))
