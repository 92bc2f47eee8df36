"""SparQ-GP-UCB and W-SparQ-GP-UCB: bandits with an expert who measures past points again.

SparQ-GP-UCB is Algorithm 1 of [M], and W-SparQ-GP-UCB is Algorithm 2. In a round, ``tell`` adds the
observation, ``consult`` returns the points at which the expert should measure f_now, ``absorb``
adds the expert's answers, and ``ask`` returns the next choice.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, UpperConfidence
from botorch_tv.forgetting import Decay, Inflation, Retained, Static
from botorch_tv.forgetting.sparq_windows import is_window_start, require_alpha_tilde
from botorch_tv.gp.arms import ArmRegression
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.data import Data, History, Prior
from botorch_tv.gp.linalg import leading
from botorch_tv.gp.points import PointRegression
from botorch_tv.gp.process import Inference
from botorch_tv.gp.random import Draws, Generators, mixed
from botorch_tv.gp.tensors import Rows, without_gradients
from botorch_tv.strategies.arguments import require_tensors
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.dpp import Steps, k_dpp, require_steps
from botorch_tv.strategies.feasible import Asked
from botorch_tv.strategies.gp_strategy import KernelStrategy
from botorch_tv.strategies.state import (
    Consultation,
    ExpertData,
    ExpertWarning,
    State,
    Suggestion,
    draws_from,
)
from botorch_tv.validation import of_trial, settle_number


def retained_where(old_trials: Tensor, old: ExpertData, new: ExpertData) -> ExpertData:
    """The answers of all trials: old answers in ``old_trials``, new answers in the other trials."""
    count, place = max(old.y.shape[-1], new.y.shape[-1]), old_trials.dim()

    def either(first: Tensor, second: Tensor, fill: float) -> Tensor:
        wide = []
        for part in (first, second):
            shape = (*part.shape[:place], count - part.shape[place], *part.shape[place + 1 :])
            wide.append(torch.cat([part, part.new_full(shape, fill)], place))
        return torch.where(leading(old_trials, first.dim()), wide[0], wide[1])

    return new._replace(
        choice=either(old.choice, new.choice, 0),
        y=either(old.y, new.y, 0.0),
        noise=either(old.noise, new.noise, math.inf),
        time=torch.where(old_trials, old.time, new.time),
    )


def with_answers(data: Data, expert: ExpertData | None) -> Data:
    """The data from which the posterior is computed: the expert's answers, followed by the log."""
    if expert is None:
        return data
    log, first, dim = data.history, data.dropped, data.time.dim()
    time = expert.time.unsqueeze(-1).expand(expert.y.shape)

    pairs = zip((expert.choice, expert.y, expert.noise, time), log)
    history = History(
        *(Rows.of(torch.cat([new, rows.tensor(first)], dim), dim) for new, rows in pairs)
    )
    mask = data.mask
    if mask is not None:
        mask = torch.nn.functional.pad(mask, (expert.y.shape[-1], 0), value=1)
    whole = data._replace(
        rounds=len(history.y), dropped=0, rule_mask=mask, aside=None, history=history
    )
    return whole if data.empty is None else whole._replace(empty=~whole.good.any(-1))


def draw_points(state: State, size: int, draws: Draws, steps: Steps) -> tuple[Tensor, Tensor]:
    """Distinct past choices, drawn by a k-DPP.

    The function synchronises twice with the device: it reads the largest number of distinct choices
    and the largest number of points drawn, to compute no more than the trials need.

    Args:
        state: A state after at least one round.
        size: Number of points to draw. Fewer points are drawn if there are fewer distinct choices,
            or if the covariance of the choices has a lower rank.
        draws: Random numbers of the trials.
        steps: Number of proposals of the swap chain, or ``"exact"``; see
            :func:`~botorch_tv.experts.k_dpp`.

    Returns:
        Two tensors: the choices, `batch_shape x Q` (arms) or `batch_shape x Q x d` (points); and a
        mask of the valid entries, `batch_shape x Q`, bool. Q is the largest number of points of any
        trial.
    """
    log = state.history.choice.tensor()
    if state.time.numel() == 0:
        first = log.narrow(state.time.dim(), 0, 1)
        return first, torch.zeros(*state.time.shape, 1, dtype=torch.bool, device=log.device)
    place, order = distinct(log, state.time.dim())
    candidates = int(place.sum(-1).amax())
    order = order[..., :candidates]
    there = place.gather(-1, order)
    choice = _taken(log, order)
    if isinstance(state.basis, Basis):
        covariance = state.basis.gram(choice)
    else:
        assert isinstance(state.basis, BoxPrior)
        flat = choice.reshape(-1, *choice.shape[-2:])
        covariance = state.basis.points.covariance(flat, flat)
        covariance = covariance.view(*choice.shape[:-1], choice.shape[-2])
    index, mask = k_dpp(covariance, size, draws, points=there, steps=steps, clip=True)
    count = max(1, int(mask.sum(-1).amax()))
    mask = mask[..., :count]
    # Invalid entries repeat the first point of the same trial.
    index = torch.where(mask, index[..., :count], 0)
    return _taken(choice, index), mask


def distinct(choice: Tensor, batch_dims: int) -> tuple[Tensor, Tensor]:
    """Which rows of a log have a choice that no earlier row has.

    Args:
        choice: Arms, `batch_shape x n`, or points, `batch_shape x n x d`.
        batch_dims: Number of dimensions of the batch shape.

    Returns:
        Two tensors, `batch_shape x n`: a mask and row indices. The mask, bool, is True for rows
        that differ from all earlier rows. The tensor of row indices, int64, contains first the
        rows where the mask is True, and then the rows where the mask is False, both in ascending
        order.
    """
    key = choice if choice.dim() == batch_dims + 1 else _hashed(choice)
    # Sorting puts equal choices side by side, the oldest first.
    ordered, order = key.sort(dim=-1, stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    new = torch.zeros_like(first).scatter(-1, order, first)
    return new, new.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)


def _hashed(points: Tensor) -> Tensor:
    """A 64-bit hash of points, `* x d -> *`; two points collide with a probability of 1e-19."""
    bits = (points.double() + 0.0).view(torch.int64)  # adding 0 turns -0 into 0
    key = torch.zeros_like(bits[..., 0])
    for part in bits.unbind(-1):
        key = mixed(key ^ part)
    return key


def _taken(choice: Tensor, number: Tensor) -> Tensor:
    """Rows of a log, `batch_shape x n [x d]`, at indices `batch_shape x q`."""
    if choice.dim() == number.dim():
        return choice.gather(-1, number)
    return choice.take_along_dim(number.unsqueeze(-1), -2)


class Schedule(ABC):
    """The rounds after which an expert is asked."""

    @abstractmethod
    def due(self, t: int) -> bool:
        """Whether the expert is asked after round t.

        Args:
            t: The round, counted from 1.
        """


@dataclass(frozen=True)
class EveryRound(Schedule):
    """Ask after every round: SparQ-GP-UCB, [M] Algorithm 1."""

    def due(self, t: int) -> bool:
        return True


@dataclass(frozen=True)
class Never(Schedule):
    """Never ask; continue with the data available."""

    def due(self, t: int) -> bool:
        return False


@dataclass(frozen=True)
class Windows(Schedule):
    """Ask at window starts: W-SparQ-GP-UCB, [M] Algorithm 2.

    Windows start at t_1 = 1 and t_{j+1} = t_j + ⌊t_j^(α~/α)⌋ + 1, [M] (32). In the window from t_j,
    the factor lag^α by which noise grows is at most t_j^α~.

    Args:
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: Exponent α~ that determines the lengths of windows, in [0, 1/3); 1/4 in [M].
            A larger α~ gives longer windows.

    Raises:
        ValueError: If ``alpha`` or ``alpha_tilde`` is out of range.
    """

    alpha: float
    alpha_tilde: float = 0.25

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "(0, inf)", "a static objective needs no expert.")
        require_alpha_tilde(self.alpha_tilde)

    def due(self, t: int) -> bool:
        return is_window_start(t, self.alpha, self.alpha_tilde)


@dataclass(frozen=True)
class Refresh:
    """Settings that say when an expert is asked, and how many points the expert measures.

    Args:
        schedule: The rounds after which the expert is asked.
        c_Q: Factor c_Q in the number of points ⌈c_Q ln^d(t + 1)⌉ after round t, positive.
        steps: Number of proposals of the swap chain that draws the points: None for
            :func:`~botorch_tv.experts.default_steps`, or ``"exact"`` for the exact sampler, which
            is also faster for smooth kernels on a CPU.

    Raises:
        ValueError: If an argument is out of range.
    """

    schedule: Schedule = field(default_factory=EveryRound)
    c_Q: float = 1.0
    steps: Steps = None

    def __post_init__(self) -> None:
        settle_number(self, "c_Q", "(0, inf)", "it scales the number of side queries; 1 is usual.")
        object.__setattr__(self, "steps", require_steps("Refresh", self.steps))

    def due(self, t: int) -> bool:
        """Whether the expert is asked after round t; never before the first round.

        Args:
            t: The round, counted from 1; 0 before the first round.
        """
        return t >= 1 and self.schedule.due(t)

    def queries(self, t: int, dim: int) -> int:
        """⌈c_Q ln^d(t + 1)⌉, the largest number of points to ask about after round t.

        Args:
            t: The round, counted from 1.
            dim: Dimension d of the points.
        """
        return math.ceil(self.c_Q * math.log(t + 1) ** dim)


@dataclass(frozen=True, kw_only=True, repr=False)
class SparQ(KernelStrategy):
    """A strategy that consults an expert.

    Predictions use the newest answers of the expert. If the newest answers belong to the
    consultation after round t, predictions also use the observations of all rounds after t. The
    observations of round t and of all earlier rounds are dropped; the points of these observations
    remain candidates for the next consultation. The age of an answer counts from the time of the
    question, and the age of an observation counts from the time of the observation.

    The expert may be slow. If answers are absorbed some rounds after the question, they count as
    measured at the time of the question, and predictions use them together with all later
    observations. The expert may answer only some of the points (argument ``ok`` of :meth:`absorb`),
    and the answered points may differ between trials. A trial without any new answer continues with
    its earlier answers and observations. :meth:`ask` issues an :class:`ExpertWarning` if an expert
    was due after the newest round but no answers have been absorbed since then. The warning means
    that :meth:`consult` and :meth:`absorb` were not called, or that the expert is slow or absent.
    ``warnings.simplefilter("ignore", ExpertWarning)`` silences the warning.

    Args:
        decay: The decay of covariance with the time between measurements.
        inflation: The growth of the noise variance with the age of a measurement.
        exploration: The rule that chooses from the posterior; upper confidence bounds by default.
        refresh: Settings that say when the expert is asked, and how many points the expert
            measures.

    Raises:
        ValueError: If a number is out of range.
    """

    decay: Decay = field(default_factory=Static)
    inflation: Inflation = field(default_factory=Static)
    exploration: Exploration = field(default_factory=UpperConfidence)
    refresh: Refresh = field(default_factory=Refresh)

    @property
    def consults(self) -> bool:
        """Whether an expert is ever asked."""
        return not isinstance(self.refresh.schedule, Never)

    def _initial(self, domain: Domain, basis: Prior, shape: Size) -> State:
        if domain.columns > domain.dim:
            raise InputDataError(
                f"{domain!r} has a context, but questions to an expert must have none; use a Box "
                "without context_dim."
            )
        return super()._initial(domain, basis, shape)

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """Inference by regression, because an expert's answers replace earlier observations.

        Args:
            domain: The domain.
            prior: Not used by this strategy.
        """
        return (PointRegression if isinstance(domain, Box) else ArmRegression)(
            self.process, samples=self.exploration.samples
        )

    def _represented(self, domain: Domain, prior: Prior) -> Prior:
        return prior  # without features, because only regression can replace data by answers

    def _in_use(self, data: Data, state: State) -> Data:
        return with_answers(data, state.expert)

    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        self.warn_of_absence(state, stacklevel=6)
        return super()._ask(state, asked, draws)

    def undisturbed(self) -> SparQ:
        return replace(self, refresh=replace(self.refresh, schedule=Never()))

    def warn_of_absence(self, state: State, stacklevel: int = 2) -> None:
        answered = 0 if state.expert is None else state.expert.round
        if self.refresh.due(state.rounds) and answered < state.rounds:
            warnings.warn(
                f"the expert was due after round {state.rounds}, but no answers have been absorbed "
                f"since round {answered}; round {state.rounds + 1} uses the data available. Call "
                "consult() and absorb() between tell() and ask().",
                ExpertWarning,
                stacklevel=stacklevel,
            )

    @without_gradients
    def consult(
        self, state: State, *, generator: Generators | Draws | None = None
    ) -> Consultation | None:
        """The points to ask the expert about; call after :meth:`tell` and before :meth:`ask`.

        A k-DPP of the kernel draws the points to ask about from the distinct points chosen so far.
        Here k is the smallest of three numbers: the number of distinct points, the numerical rank
        of their covariance matrix, and ⌈c_Q ln^d(t + 1)⌉ after round t.

        Args:
            state: The current state.
            generator: Source of random numbers, as in :meth:`Strategy.ask`.

        Returns:
            The points of each trial; None if no consultation is due.

        Raises:
            InputDataError: If a list of generators does not have a generator per trial.
        """
        if not self.refresh.due(state.rounds):
            return None
        size = self.refresh.queries(state.rounds, state.domain.dim)
        draws = draws_from(generator, state)
        choice, mask = draw_points(state, size, draws, self.refresh.steps)
        return Consultation(
            X=state.domain.points(choice, state.basis.variance).clone(),
            choice=choice,
            mask=mask,
            time=state.time.clone(),
            round=state.rounds,
            limit=min(size, state.rounds),
        )

    def _absorb(
        self, state: State, consultation: Consultation, y: Tensor, ok: Tensor | None, check: bool
    ) -> State:
        absorbed = 0 if state.expert is None else state.expert.round
        wanted, shape = consultation.mask.shape, state.time.shape
        if wanted[:-1] != shape or not absorbed < consultation.round <= state.rounds:
            raise InputDataError(
                f"the consultation follows round {consultation.round} of trials "
                f"{tuple(wanted[:-1])}, but the state of trials {tuple(shape)} is after round "
                f"{state.rounds}, and its last absorbed answers are of round {absorbed}. Pass the "
                "state of the consultation or a later state; absorb answers once and in order."
            )
        flags = ("ok", y if ok is None else ok, wanted, None if ok is None else torch.bool)
        require_tensors(state.basis.variance, ("y", y, wanted, None), flags)
        answered = consultation.mask if ok is None else consultation.mask & ok
        if check and not bool((good := y.isfinite() | ~answered).all()):
            *trial, number = (~good).nonzero()[0].tolist()
            raise InputDataError(
                f"answer number {number}{of_trial(trial)} is {y[(*trial, number)].item()}, but an "
                "answer must be finite; pass ok=False for points that the expert did not answer."
            )
        any_answer = answered.any(-1)
        looks = check or y.device.type == "cpu"
        all_trials = ok is None or (looks and bool(any_answer.all()))
        if check and not all_trials:
            warnings.warn(
                f"the expert gave no answer in {int((~any_answer).sum())} of "
                f"{any_answer.numel()} trials after round {consultation.round}; these trials "
                "continue with their earlier answers and observations.",
                ExpertWarning,
                stacklevel=4,  # the warning points to the caller of absorb
            )
        asked = consultation.side_queries
        expert = ExpertData(
            choice=consultation.choice,
            y=torch.where(answered, y, 0.0),
            noise=torch.full_like(y, self.noise).masked_fill_(~answered, math.inf),
            time=consultation.time,
            round=consultation.round,
            asked=asked if state.expert is None else state.expert.asked + asked,
            unanswered=asked - answered.sum(-1),
        )
        if state.expert is not None and not all_trials:
            expert = retained_where(~any_answer, state.expert, expert)
        newer = state.rounds - consultation.round
        where = None if all_trials else any_answer
        change = state.data.change([Retained(newest=newer, where=where)])
        data = state.data.keep(change)
        origin = torch.minimum(data.origin, consultation.time)
        data = data._replace(origin=torch.where(any_answer, origin, data.origin))
        return state._replace(expert=expert, data=data)

    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        points = min(horizon, state.basis.arms) if isinstance(state.basis, Basis) else horizon
        asked = min(points, self.refresh.queries(horizon, state.domain.dim))
        drawing = 2 * points**2 + 3 * points * asked
        return super().numbers_per_trial(state, horizon, trials) + drawing
