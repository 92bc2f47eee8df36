"""The adaptive strategy, which needs only a domain and a clock, and its summary as text."""

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
from botorch_tv.gp.linalg import leading
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
from botorch_tv.strategies.arguments import Measured, fingerprinted
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.candidates import Decision, measured_points
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.feasible import Asked
from botorch_tv.strategies.process_strategy import ProcessStrategy
from botorch_tv.strategies.state import Info, Now, State, Suggestion
from botorch_tv.validation import largest, require, require_integer, shown, span_text

PROBABLE = 0.5
"""Smallest posterior probability at which :meth:`Adaptive.describe` states a hypothesis."""
SURE = 0.95
"""Posterior probability below which :meth:`Adaptive.describe` also prints the prior probability."""

LEARNED = 0.05
"""Smallest excess over its prior at which the posterior probability of jumps is printed."""

WIDER = 1.75
"""Number c: variances of predictions are multiplied by about 1 + c where nothing is measured.

A loop measures where it expects the best, and the model learns scale and mean there. Elsewhere the
objective is lower and varies more than the model expects, which no measurement of the loop shows;
see benchmarks/results/ablations.md."""


def _probability(share: float) -> str:
    """A probability to two digits, never 0 or 1: ``0.97`` or ``> 0.99``."""
    if share > 0.99:
        return "> 0.99"
    return f"{share:.2f}" if share >= 0.01 else "< 0.01"


def _with_prior(share: float, prior: float) -> str:
    """A posterior probability as text; if it is below ``SURE``, the prior probability follows."""
    text = _probability(share)
    return text if share >= SURE else f"{text} (prior {_probability(prior)})"


def _edge_text(
    share: Tensor, values: Sequence[float], texts: tuple[str, str], least: float = PROBABLE
) -> str:
    """Text that marks an estimate at the smallest or largest candidate value, otherwise empty.

    The true value may be below the smallest candidate value, or above the largest.

    Args:
        share: The weights of the candidate values, `n`.
        values: The candidate values, `n`.
        texts: Two texts: for the smallest value, and for the largest value.
        least: Share of the total weight above which an estimate counts as the smallest value. For
            noise this share is ``SURE``, because one of two candidate values always has more than
            half of the weight. An estimate counts as the largest value if this value has more than
            half of the weight, because drift and jumps explain a part of larger noise.
    """
    if len(values) < 2:
        return ""
    lowest, highest = (float(share[values.index(end(values))]) for end in (min, max))
    total = float(share.sum())
    return texts[0] if lowest > least * total else texts[1] if highest > PROBABLE * total else ""


@dataclass(frozen=True, kw_only=True)
class Adaptive(ProcessStrategy):
    """A bandit without prior knowledge: candidate models, weighted by how well they predict.

    See :mod:`botorch_tv.gp.mixture` for the model. The first measurements fill the domain: each is
    far from the measurements before it. The mean and the standard deviation of the first
    measurements, and the median time between them, are the units of all later computations, so y, x
    and time may be in any units. After 8, 16, 32, ... rounds the median time between measurements
    is computed again. If this median time differs from the unit of time by more than a factor of
    three, the median time becomes the unit of time, and all measurements are processed again. A
    short test run, with seconds between its measurements, therefore does not determine the rates of
    a run that takes hours. After 16, 32, ... rounds the :meth:`relevance` of each parameter is
    estimated too. If the measurements strongly support other relevances, they are processed again
    with these. Predictions are the mean of the mixture of all candidate models, and its
    standard deviation times :meth:`band_factor`; a sample is drawn from a randomly chosen candidate
    model.

    Like every strategy, this class refuses an observation earlier than the newest observation;
    :class:`Loop` accepts such an observation and replays the log of the loop. ``init`` takes
    float64 only, and domains of up to 20 coordinates.

    The variance of a measurement, in squared units of y, is given by ``tell(noise=)``: for the mean
    of n repeated readings, the variance of a reading divided by n. It replaces the noise of the
    candidate models for this measurement, and is assumed to be exact and independent of other
    measurements. Each candidate model divides it by its estimate of s² just before the measurement;
    later estimates do not change this ratio, which is at least ``Bank.tolerance``. Predictions of
    new observations have the estimated noise, see :meth:`model_noise`, never a given variance.

    Args:
        bank: The candidate processes.
        starts: Number of first measurements that determine the units of y, time and context. If the
            first measurements all have the same value, the strategy waits for a different value.
            Further measurements at the time of measurement number ``starts`` also determine the
            units.
        width: The confidence schedule sqrt(beta_t).
        exploration: The rule that chooses from the posterior; upper confidence bounds by default.
        maximize: False to minimise. Predictions always have the sign and the units of y.

    Raises:
        ValueError: If an argument is of another type, or if ``starts`` is out of range.
    """

    bank: Bank = field(default_factory=Bank)
    starts: int = FIRST
    width: Width = field(default_factory=Logarithmic)
    exploration: Exploration = field(default_factory=UpperConfidence)
    maximize: bool = True

    def __post_init__(self) -> None:
        require_integer("Adaptive: starts", self.starts, 2, "a standard deviation needs two.")
        require(
            self.starts <= STARTS,
            f"Adaptive: starts is {self.starts}, but it must be at most {STARTS}; use {FIRST}.",
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
        """The process that an inference requires; its kernel, noise and forgetting are not used."""
        return Process(
            kernel=torch.empty(0, 0, dtype=torch.float64, device="cpu"),
            noise=0.0,  # the candidate processes have their own noise
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
            f"Adaptive.init: dtype is {dtype}, in which covariances lose too many digits when they "
            "are updated; use torch.float64.",
        )
        if domain.columns > MOST_COLUMNS:
            raise InputDataError(
                f"{domain!r} has {domain.columns} coordinates, context included, but the adaptive "
                f"strategy supports at most {MOST_COLUMNS}; drop some, or use a strategy with a "
                "given kernel."
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
            named, groups = domain.parameters, None
            ranged = named.context_columns if named is not None else 0
            unranged = domain.context_dim - ranged
            if named is not None:
                sizes = torch.tensor(domain.sizes, device=device)
                groups = torch.arange(len(sizes), device=device).repeat_interleave(sizes)
            prior = prior_on_box(self.bank, lower, upper, unranged, among, ranged, groups)
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

        Unlike the posterior for predictions, the posterior for choices assumes that no jump has
        happened since the newest measurement. After a jump all points are equally good, but a
        confidence band that allows for a jump would favour points with a high mean.
        """
        running = running_mixture(decision.state.data)
        acts = running.units.ready.view(decision.present.now.shape)
        # Before the units are set, there is no posterior to search. A randomised strategy draws its
        # random numbers nevertheless, because the numbers of a trial must not depend on the other
        # trials.
        domain = decision.state.domain
        fills = domain.search.fills if isinstance(domain, Box) else 0
        due = decision.state.rounds < max(self.starts, fills)
        if not self.draws and (due or (acts.device.type == "cpu" and not bool(acts.any()))):
            return decision.at(self._start(decision))
        choosing = self.inference_for(decision.state.domain, choosing=True)
        chosen = super()._chosen(replace(decision, inference=choosing), draws)
        if running.settled and isinstance(choosing, PointMixture):
            return chosen  # the suggestion already has its prediction
        choice = chosen.choice
        if not running.settled:
            use = acts if choice.dim() == acts.dim() else acts.unsqueeze(-1)
            choice = torch.where(use, choice, self._start(decision))
        return decision.at(choice)

    def _best(self, state: State, asked: Asked, caution: float) -> Tensor:
        """The point with the best mean or, before the units are set, the best observation."""
        best = super()._best(state, asked, caution)
        running = running_mixture(state.data)
        if running.settled or not state.rounds:
            return best
        log = state.history
        good = log.noise.tensor().isfinite()
        pending = ~running.units.ready.view(state.time.shape) & good.any(-1)
        y = log.y.tensor() if self.maximize else -log.y.tensor()
        if asked.feasible is not None:
            allowed = good & asked.feasible.allowed(measured_points(state)).view_as(good)
            good = torch.where(allowed.any(-1, keepdim=True), allowed, good)
        index = torch.where(good, y, -math.inf).argmax(-1, keepdim=True)
        choice, domain = log.choice.tensor(), state.domain
        if not isinstance(domain, Box):
            return torch.where(pending, choice.gather(-1, index).squeeze(-1), best)
        X = choice.take_along_dim(index.unsqueeze(-1), -2).squeeze(-2)
        X = torch.cat([domain.held(X[..., : domain.dim]), best[..., domain.dim :]], -1)
        return torch.where(pending.unsqueeze(-1), X, best)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        return 1.0  # see ``_tell``

    def _least_noise(self, state: State) -> float:
        return 1 / largest(state.data.prior.variance.dtype)  # y may have any units

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        if measured.given_noise is None:  # the log has 0 for the noise of the candidate models
            own = torch.where(measured.noise.isfinite(), self.process.noise, torch.inf)
            measured = measured._replace(noise=own.to(measured.noise))
        return super()._tell(state, measured, consume=consume)

    @property
    def restorable(self) -> bool:
        """True: a replay takes long, because each observation updates every candidate model."""
        return True

    @property
    def usual_noise(self) -> float:
        """NaN, because the strategy estimates the noise; see :meth:`model_noise`."""
        return math.nan

    def _start(self, decision: Decision) -> Tensor:
        """The next point of the initial design, which fills the domain."""
        state, domain = decision.state, decision.state.domain
        prior, shape = bank_prior(state.data), state.time.shape
        place = prior.starts[state.rounds % len(prior.starts)]
        choice = place.expand(shape) if place.dim() == 0 else place
        if isinstance(domain, Box):
            choice = domain.held(domain.from_unit(place)).expand(*shape, domain.dim)
            if decision.context is not None:
                choice = torch.cat([choice, decision.context], -1)
        return decision.allowed(choice)

    def inference_for(
        self, domain: Domain, prior: Prior | None = None, *, choosing: bool = False
    ) -> MixtureInference:
        """The inference that computes the posterior on a domain.

        Args:
            domain: The domain.
            prior: Not used by this strategy.
            choosing: Whether the posterior is for a choice, not for a prediction.
        """
        kind = PointMixture if isinstance(domain, Box) else ArmMixture
        samples = self.exploration.samples
        return kind(self.process, samples=samples, starts=self.starts, choosing=choosing)

    def prior_variance(self, state: State) -> float:
        """Estimated variance of the objective over the domain, for a single trial.

        Args:
            state: A state of one trial.
        """
        return float(self.scale(state))

    def scale(self, state: State) -> Tensor:
        """The mean of s², in squared units of y, `batch_shape`.

        Args:
            state: The current state.
        """
        running = running_mixture(state.data)
        scale = (running.now.weights * running.now.variances).sum((-2, -1))
        return (scale * running.units.spread.square()).view(state.time.shape)

    def predicts(self, state: State) -> Tensor:
        """Whether the units of the data are set, `batch_shape`, bool; predictions need units.

        Args:
            state: The current state.
        """
        return running_mixture(state.data).units.ready.view(state.time.shape).clone()

    def band_factor(self, state: State, variance: Tensor) -> Tensor:
        """Factor on the model's standard deviations with which bands of predictions hold.

        The factor is √(1 + c v / V), at most √(1 + c), for the variance v and the estimated
        variance V of the objective over the domain. It is near 1 where the loop has measured.
        Choices use the model's own variances.

        Args:
            state: The current state.
            variance: Variances of f in the units of y, `batch_shape` and any further dimensions.
        """
        share = variance / leading(self.scale(state), variance.dim())
        return (1 + WIDER * share.clamp(0, 1)).sqrt()

    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        return self._with_band(state, super()._ask(state, asked, draws))

    def _suggestion_at(self, state: State, choice: Tensor, now: Now) -> Suggestion:
        return self._with_band(state, super()._suggestion_at(state, choice, now))

    def _with_band(self, state: State, made: Suggestion) -> Suggestion:
        return made._replace(sd=made.sd * self.band_factor(state, made.sd.square()))

    def relevance(self, state: State) -> Tensor:
        """Factors on the distances along each coordinate, `batch_shape x (d + c)`.

        Lengthscales of the bank are divided by them. All are 1 unless the newest 128 measurements
        strongly support different relevances; the columns of a :class:`Choice` have a common one.
        See :mod:`botorch_tv.gp.mixture.units`; effects on the objective are those of
        :func:`~botorch_tv.strategies.sobol.importance`.

        Args:
            state: The current state.
        """
        relevance = running_mixture(state.data).units.relevance
        return relevance.view(*state.time.shape, relevance.shape[-1]).clone()

    def jump(self, state: State) -> Tensor:
        """Probability of a jump just before the newest measurement, `batch_shape`.

        Args:
            state: The current state.
        """
        running = running_mixture(state.data)
        return running.jump_chance(running.now.time).view(state.time.shape)

    def describe(
        self, state: State, *, format_time: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        """A summary of the posterior as text, in the units of the data.

        The summary states the probability of drift, the half-life of the correlation, the newest
        change point that a later measurement supports, and estimates of signal, lengthscale and
        noise. If a probability is below 0.95, the summary also states the prior probability. If an
        estimate is the smallest or the largest candidate value of the bank, the summary adds "or
        less" or "or more" to the estimate.

        Args:
            state: The state of one trial.
            format_time: Function that formats a time as text.
            unit: Unit of time in the plural, such as "hours".

        Returns:
            One to four sentences.

        Raises:
            InputDataError: If the state has several trials.
        """
        if state.time.numel() != 1:
            raise InputDataError(
                f"the state has {state.time.numel()} trials, but describe() takes one; "
                "weights(state) returns the posterior of all trials."
            )
        running = running_mixture(state.data)
        if not bool(running.units.ready):
            log = state.history
            good = log.noise.tensor().isfinite().flatten()
            number = int(good.sum())
            if number < self.starts:
                return f"Initialising: {number} of {self.starts} observations received."
            value = float(log.y.tensor().flatten()[good][-1])
            return (
                f"Initialising: all {number} observations equal {value:.6g}, so the signal sd "
                "cannot be estimated. Suggestions are spread over the domain until y takes two "
                "different values. If all observations remain equal, check how y is measured."
            )
        values = self.bank.values(state.domain.columns)
        shares = {name: share.flatten() for name, share in self.marginals(state).items()}
        jumped = float(running.jumped)
        when = None if math.isnan(jumped) else format_time(jumped)
        sentences = [
            self._drift_text(shares["rate"], float(running.units.clock), unit),
            self._jump_text(shares["hazard"], when, float(running.jumped_with)),
        ]
        lengthscales, noise_ratios = values["lengthscale"], values["noise_ratio"]
        share, texts = shares["lengthscale"], (" or less", " or more")
        length = float((share * share.new_tensor(lengthscales).log()).sum().exp())
        ends = [length / float(each) for each in self.relevance(state).aminmax()][::-1]
        own = f"lengthscale {length:.2g} of each range"
        if ends[0] < ends[1]:
            own = f"lengthscales {ends[0]:.2g} to {ends[1]:.2g} of the ranges"
        noise = float(self.model_noise(state).sqrt())
        sentences.append(
            f"Signal sd {math.sqrt(self.prior_variance(state)):.3g}, "
            f"{own}{_edge_text(share, lengthscales, texts)}, "
            f"noise sd {noise:.2g}{_edge_text(shares['noise_ratio'], noise_ratios, texts, SURE)}."
        )
        return " ".join(filter(None, sentences))

    def _drift_text(self, share: Tensor, clock: float, unit: str) -> str:
        """A sentence on the probability of drift and the half-life; empty if no rate is above 0.

        Args:
            share: The weights of the rates, `n`.
            clock: The time unit of the rates.
            unit: Unit of time in the plural.
        """
        rate, prior = share.new_tensor(self.bank.rates), self._prior_share(self.bank.rates)
        drifts = rate > 0
        static = float(share[~drifts].sum())
        if prior == 0:
            return ""
        if static >= PROBABLE:
            return f"No drift: probability {_with_prior(static, 1 - prior)}."
        exponent = -(share * torch.log1p(-rate)).sum() / share[drifts].sum()
        half_life = span_text(clock * 2 * math.log(2) / float(exponent), unit)
        # The smallest rate has the longest half-life.
        edge = _edge_text(share[drifts], rate[drifts].tolist(), (" or more", " or less"))
        chance = _with_prior(1 - static, prior)
        return f"Drift: probability {chance}, correlation half-life {half_life}{edge}."

    def _jump_text(self, share: Tensor, when: str | None, chance: float) -> str:
        """A sentence on the newest change point; empty if no hazard is above 0.

        Args:
            share: The weights of the hazards, `n`.
            when: The time of the first observation after the newest change point; None if no change
                point was detected.
            chance: The probability of the newest change point.
        """
        prior = self._prior_share(self.bank.hazards)
        if prior == 0:
            return ""
        if when is not None:
            return (
                f"Change point between the observation at {when} and the one before "
                f"(probability {_probability(chance)})."
            )
        jumps = 1 - float(share[share.new_tensor(self.bank.hazards) == 0].sum())
        if jumps < max(PROBABLE, prior + LEARNED):
            return "No change point detected."
        chance_text = _with_prior(jumps, prior)
        return f"No change point detected. Jump rate above 0: probability {chance_text}."

    @staticmethod
    def _prior_share(values: Sequence[float]) -> float:
        """The prior probability of drift or of jumps: the share of ``values`` that are above 0."""
        return 1 - values.count(0.0) / len(values)

    def marginals(self, state: State) -> dict[str, Tensor]:
        """Posterior weights of the candidate values of each parameter, `batch_shape x n` each.

        Args:
            state: The current state.

        Returns:
            For each name of a parameter, the weights of the values that :meth:`Bank.values` lists.
        """
        share, axes = self.weights(state), range(-len(PARTS), 0)
        others = [[axis for axis in axes if axis != own] for own in axes]
        return {name: share.sum(own) for name, own in zip(PARTS, others)}

    def weights(self, state: State) -> Tensor:
        """Posterior weights, `batch_shape x lengthscales x rates x hazards x noise ratios`.

        Args:
            state: The current state.
        """
        prior = bank_prior(state.data)
        share = running_mixture(state.data).member_weights(prior)
        return share.view(*state.time.shape, *prior.sizes)
