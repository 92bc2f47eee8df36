"""The adaptive strategy, which needs only a domain and a clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal, Unpack

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, RBFKernel
from torch import Size, Tensor

from botorch_tv.acquisition import Logarithmic, Width
from botorch_tv.forgetting.unit import median_gap
from botorch_tv.inference.data import Prior
from botorch_tv.inference.factor import Inference as Method
from botorch_tv.inference.mixture.bank import PARTS, Bank
from botorch_tv.inference.mixture.inference import (
    ArmMixture,
    MixtureInference,
    PointMixture,
    bank_prior,
    running_mixture,
)
from botorch_tv.inference.mixture.moments import jump_chance, member_weights
from botorch_tv.inference.mixture.prior import (
    CANDIDATES,
    MOST_COLUMNS,
    STARTS,
    BankPrior,
    prior_on_arms,
    prior_on_box,
)
from botorch_tv.inference.mixture.units import FIRST
from botorch_tv.strategies.belief_in_words import believed, in_words
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.checks import require_state
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.deciding import Choice, Decision
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.parts import require_left_out
from botorch_tv.strategies.signature import Untold, preset
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, require_integer, shown


def _unused_kernel() -> RBFKernel:
    """A placeholder no bank uses, independent of PyTorch's defaults because files describe it."""
    with torch.device("cpu"):
        return RBFKernel().float()


@dataclass(frozen=True, kw_only=True, repr=False)
class Adaptive(Strategy):
    """A bandit without prior knowledge: a bank of processes, weighted by how well they predict.

    See :mod:`botorch_tv.inference.mixture` for the model. The first measurements fill the domain,
    each far from the previous ones. Their mean, standard deviation and median time apart become the
    units of everything that follows, so y, x and time may be in any units. After 8, 16, 32, ...
    rounds the median time apart is checked again; if it has changed by more than a factor of three,
    everything is relearned with the new one. Thus a test run lasting seconds does not set the rates
    of a night of hours. Predictions are the mixture's mean and variance; a sample is drawn from a
    randomly chosen member.

    An observation earlier than others is refused, as by all strategies; :class:`Loop` replays its
    log instead. ``tell(noise=)`` is refused: the scale of y is integrated out, so a variance in
    units of y is a different noise ratio under every scale, and no member could weight it exactly.
    ``init`` takes float64 only, and domains of up to 20 coordinates.

    Args:
        bank: The candidate processes.
        starts: Measurements that set the units; more if the first do not differ, or others are made
            at the time of the last of them.

    Raises:
        ValueError: If a part is given that the bank determines.
    """

    kernel: Kernel | Tensor = field(default_factory=_unused_kernel, init=False)
    noise: float = field(default=1.0, init=False)
    mean: float | Literal["estimated"] = field(default="estimated", init=False)
    inference: Method = field(default="auto", init=False)
    bank: Bank = field(default_factory=Bank)
    starts: int = FIRST

    knows_scale: ClassVar[bool] = False
    _model: ClassVar[tuple[str, ...]] = ("bank", "starts")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            isinstance(self.bank, Bank),
            f"Adaptive: bank is {self.bank!r}, but it must be a Bank, such as "
            "Bank(rates=(0.0, 0.01)).",
        )
        require_integer("Adaptive: starts", self.starts, 2, "a spread takes two.")
        require(
            self.starts <= STARTS,
            f"Adaptive: starts is {self.starts}, but it is at most {STARTS}; use {FIRST}.",
        )
        require_left_out(
            self,
            {
                "decay": "give Bank(rates=...)",
                "inflation": "the bank forgets by rates and jumps; leave it out",
                "retention": "the bank's hazards forget what a jump has made worthless; give "
                "Bank(hazards=...)",
                "learning": "the bank learns by its weights; leave it out",
            },
        )

    def __repr__(self) -> str:
        own = ("bank", "starts", "width", "exploration", "maximize")
        parts = {one.name: repr(getattr(self, one.name)) for one in fields(self)}
        return f"{type(self).__name__}({', '.join(f'{name}={parts[name]}' for name in own)})"

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        require(
            dtype == torch.float64,
            f"Adaptive.init: dtype is {dtype}, but covariances updated round after round lose too "
            "many digits in it; use torch.float64.",
        )
        if domain.columns > MOST_COLUMNS:
            raise InputDataError(
                f"{domain!r} has {domain.columns} coordinates, context included, but a bank serves "
                f"up to {MOST_COLUMNS}; leave some out, or use a strategy that is told a kernel."
            )
        prior: BankPrior
        if isinstance(domain, Grid):
            prior = prior_on_arms(self.bank, domain.points(_all(domain, device), _like(device)))
        else:
            assert isinstance(domain, Box)
            lower, upper = domain.bounds.to(_like(device))
            among = domain.search.among(CANDIDATES, domain.dim)
            prior = prior_on_box(self.bank, lower, upper, domain.context_dim, among)
        return self._initial(domain, prior, shape)

    def step(self, state: State) -> Tensor:
        """The time unit of rates, once set; until then the median time between measurements."""
        running, log = running_mixture(state.data), state.history
        step = running.units.clock.view(state.time.shape).to(state.time)
        if running.settled:
            return step
        so_far = median_gap(log.time.tensor(), log.noise.tensor().isfinite())
        return torch.where(running.units.known.view(state.time.shape), step, so_far)

    def _chosen(self, decision: Decision, draws: Draws) -> Choice:
        """As of all strategies; before the units are known a point far from those before it.

        It is chosen as if no jump had come since the newest measurement. After one all points are
        alike, so that it speaks for none of them; in a band it would speak for those known to be
        high, which it makes as uncertain as it makes them likely to fall. Nor does it count what
        features leave out, for which no measurement makes up: of four and more coordinates that is
        much, most of it at the walls, and would draw all choices there. What is predicted takes
        both into account.
        """
        running = running_mixture(decision.state.data)
        acts = running.units.known
        # Where it shows, there is nothing to search yet; draws are the same in any batch.
        domain = decision.state.domain
        fills = domain.search.fills if isinstance(domain, Box) else 0
        due = decision.state.told < max(self.starts, fills)
        if not self.draws and (due or (acts.device.type == "cpu" and not bool(acts.any()))):
            return decision.at(self._start(decision))
        choosing = self._inference(decision.state.domain, choosing=True)
        chosen = super()._chosen(replace(decision, inference=choosing), draws)
        if running.settled and isinstance(choosing, PointMixture):
            return chosen  # with what is to be expected there
        choice = chosen.choice
        if not running.settled:
            beside = acts if choice.dim() == acts.dim() else acts.unsqueeze(-1)
            choice = torch.where(beside, choice, self._start(decision))
        return decision.at(choice)

    def _best(
        self, state: State, now: float | Tensor | None, context: Tensor | None, caution: float
    ) -> Tensor:
        """As in other strategies; before the units are known, the best point measured."""
        best, running = super()._best(state, now, context, caution), running_mixture(state.data)
        if running.settled or not state.told:
            return best
        log = state.history
        good = log.noise.tensor().isfinite()
        nothing = ~running.units.known.view(state.time.shape) & good.any(-1)
        y = log.y.tensor() if self.maximize else -log.y.tensor()
        index = torch.where(good, y, -math.inf).argmax(-1, keepdim=True)
        if not isinstance(state.domain, Box):
            return torch.where(nothing, log.choice.tensor().gather(-1, index).squeeze(-1), best)
        X = log.choice.tensor().take_along_dim(index.unsqueeze(-1), -2).squeeze(-2)
        X = torch.cat([X[..., : state.domain.dim], best[..., state.domain.dim :]], -1)
        return torch.where(nothing.unsqueeze(-1), X, best)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        if noise is not None:
            raise InputDataError(
                f"noise is {shown(noise)}, but the adaptive strategy estimates the noise in units "
                "of a scale that is itself unknown, and cannot use a variance in units of y. Leave "
                "it out, and tell repeated readings one by one instead of their mean; or use a "
                "strategy with a known kernel, such as "
                "tv_gp_ucb(kernel=..., noise=..., epsilon=...)."
            )
        return self.noise

    @property
    def usual_noise(self) -> float:
        """NaN, since the noise is estimated; see :meth:`believed_noise`."""
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

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> MixtureInference:
        """How the posterior is computed on a domain."""
        return self._inference(domain)

    def _inference(self, domain: Domain, *, choosing: bool = False) -> MixtureInference:
        kind = PointMixture if isinstance(domain, Box) else ArmMixture
        samples = self.exploration.samples
        return kind(self.process, samples=samples, starts=self.starts, choosing=choosing)

    def prior_variance(self, state: State) -> float:
        """Variance of the objective over the domain, as learned; of one trial."""
        running = running_mixture(state.data).flat()
        lengthscales = self.bank.lengthscales_of(state.domain.columns)
        return believed(running, self.bank, lengthscales).scale ** 2

    def predicts(self, state: State) -> Tensor:
        """Whether the units are known, `batch_shape`, bool; there are no predictions before."""
        require_state(state)
        return running_mixture(state.data).units.known.view(state.time.shape).clone()

    def jump(self, state: State) -> Tensor:
        """Probability of a jump just before the newest measurement, `batch_shape`."""
        running = running_mixture(state.data).flat()
        return jump_chance(running.groups, running.time).view(state.time.shape)

    def describe(
        self, state: State, *, said: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        """What is believed now, in words, in the units of the data.

        Where most of the weight lies on the least or the largest value that the bank holds, nearly
        all on the least noise, it says "or less", or "or more": the truth may lie beyond.

        Args:
            state: Of one trial.
            said: How a time is written.
            unit: Of time, such as "hours".

        Raises:
            InputDataError: If the state has several.
        """
        require_state(state)
        if state.time.numel() != 1:
            raise InputDataError(
                f"the state has {state.time.numel()} trials, but one can be told of at a time; "
                "weights(state) is of all."
            )
        running = running_mixture(state.data).flat()
        if not bool(running.units.known):
            told = int(running.number)
            if told < self.starts:
                return (
                    f"Nothing is believed yet: {told} of the first {self.starts} measurements "
                    f"{'has' if told == 1 else 'have'} been told, which set the units."
                )
            log = state.history
            value = float(log.y.tensor()[log.noise.tensor().isfinite()][-1])
            return (
                f"Nothing is believed yet: all {told} measurements so far are {value:.6g}, and "
                "without a difference there is no scale. Until there is one, points fill the "
                "domain; if none is to be expected, look at how y is measured."
            )
        lengthscales = self.bank.lengthscales_of(state.domain.columns)
        return in_words(believed(running, self.bank, lengthscales), said, unit)

    def marginals(self, state: State) -> dict[str, Tensor]:
        """How likely each lengthscale, rate, hazard and noise ratio is, each `batch_shape x n`.

        Of what they are the weights :meth:`Bank.values` tells.
        """
        share = self.weights(state)
        return {
            name: share.sum([one for one in range(-len(PARTS), 0) if one != own])
            for name, own in zip(PARTS, range(-len(PARTS), 0))
        }

    def weights(self, state: State) -> Tensor:
        """How likely members are, `batch_shape x lengthscales x rates x hazards x noise ratios`."""
        running, bank = running_mixture(state.data).flat(), self.bank
        share = member_weights(running.groups, bank_prior(state.data).members)
        parts = (bank.rates, bank.hazards, bank.noise_ratios)
        return share.view(*state.time.shape, share.shape[-2], *(len(part) for part in parts))


@preset
def adaptive_gp_ucb(
    *,
    width: Width | None = None,
    bank: Bank | None = None,
    starts: int = FIRST,
    **common: Unpack[Untold],
) -> Adaptive:
    """A strategy without prior knowledge: it needs no kernel, noise, scale or rate of change.

    See :class:`~botorch_tv.strategies.adaptive.Adaptive`. No regret bound is proved for it.

    Args:
        width: The confidence schedule sqrt(beta_t); ``Logarithmic()`` by default.
        bank: The candidate processes; :class:`~botorch_tv.inference.mixture.bank.Bank` by default.
        starts: Measurements that set the units.
    """
    # With c1 = 1.2 fewer runs stay on a lower peak of a static world, 0 of 64 for 5 over 400 rounds
    # (-.047 ± .022 of .152 a round, by a bank without rates and jumps), but it loses more where
    # peaks are to be followed: abrupt changes +.108 ± .016 of .501, Markov at .03 +.045 ± .020 of
    # .694, narrow peaks +.29 ± .09 of 1.63. A bound of its own for the level m, which raises what
    # is far from all measurements alone, does as the wider one: +.080 ± .018, +.053 ± .024 and
    # +.28 ± .09. A band with 1.5 times the variance for members that neither drift nor jump alone
    # frees runs of static worlds that stay on a lower peak, and costs the others as much: static
    # -.001 ± .011 of .104, abrupt changes +.031 ± .015 of .314, narrow peaks +.080 ± .046 of 1.64;
    # growing to that between rounds 50 and 100, static +.003 ± .010, to twice the variance between
    # 100 and 200 +.018 ± .011. With c1 = 0.4, over 16 trials of 100 rounds, it loses less on narrow
    # peaks (-.12 ± .08 of 1.70), as much on abrupt changes and Markov (-.03 ± .04, +.02 ± .06), and
    # more on static worlds (+.07 ± .06 of .33; 5 runs for 2 stay on a lower peak), where its bands
    # hold less (91 % for 93). All paired, on 30 x 30 arms and functions other than those reported.
    width = Logarithmic() if width is None else width
    bank = Bank() if bank is None else bank
    return Adaptive(bank=bank, starts=starts, width=width, maximize=common["maximize"])


def _all(domain: Grid, place: torch.device) -> Tensor:
    return torch.arange(len(domain), device=place)


def _like(place: torch.device) -> Tensor:
    return torch.empty((), dtype=torch.float64, device=place)
