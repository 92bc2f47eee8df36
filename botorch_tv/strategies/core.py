"""Strategy, the frozen configuration of a bandit.

A strategy serves one trial (``batch_shape=()``) or thousands that advance together. Its methods are
pure: they return new states and leave the old ones as they were.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields
from typing import get_args

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from linear_operator.operators import DenseLinearOperator
from torch import Size, Tensor

from botorch_tv.acquisition import DoublyWeighted, Logarithmic, Width, WidthContext
from botorch_tv.forgetting import Decay, Inflation, KeepAll, Retention, Static
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.covariance import describe_kernel, warn_of_rounded_parameters
from botorch_tv.inference.factor import Inference
from botorch_tv.inference.linalg import at_index, first_maximum
from botorch_tv.inference.rows import Rows
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.engines import Engine, FromLog, Recursion
from botorch_tv.strategies.state import History, Info, State, Suggestion
from botorch_tv.validation import require, require_floating, require_trials

TIE_TOLERANCE = 1e-7
"""Scores this close, in units of the largest prior standard deviation, are equal."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Strategy:
    """A bandit: decay x inflation x retention x exploration.

    Every posterior is a posterior on f_now, with

        mean(x) = k~ᵀ (K ∘ D + N)⁻¹ y,   var(x) = k(x, x) - k~ᵀ (K ∘ D + N)⁻¹ k~,

    where the decay fills D and k~, the inflation N, and the retention picks the rows. The choice
    maximises mean(x) + sqrt(beta) sd(x); of arms within 1e-7 standard deviations of the best the
    lowest index wins, and without data index 0.

    Args:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`. It is
            copied, so that later changes to it do not change the strategy.
        noise: Noise variance σ² of a new observation (λ for exponential weights).
        decay: How covariance falls with the time between measurements.
        inflation: How the noise of a measurement grows with its age.
        retention: Which measurements are kept.
        width: The confidence schedule sqrt(beta_t).
        inference: ``"auto"``, ``"features"`` (factor the kernel once; constant noise advances by
            rank-one steps), or ``"exact"`` (regression on the log at every round).

    Raises:
        ValueError: If ``noise`` is not positive, or a part is of the wrong kind.
    """

    kernel: Kernel | Tensor
    noise: float
    decay: Decay = field(default_factory=Static)
    inflation: Inflation = field(default_factory=Static)
    retention: Retention = field(default_factory=KeepAll)
    width: Width = field(default_factory=Logarithmic)
    inference: Inference = "auto"

    def __post_init__(self) -> None:
        require(
            0 < self.noise < math.inf,
            f"Strategy: noise is {self.noise}, but a noise variance is positive and finite; "
            "use 1e-6 times the kernel's variance for nearly exact measurements.",
        )
        for name, kind in (
            ("decay", Decay),
            ("inflation", Inflation),
            ("retention", Retention),
            ("width", Width),
            ("kernel", (Kernel, Tensor)),
        ):
            part = getattr(self, name)
            wanted = (
                kind.__name__ if isinstance(kind, type) else "GPyTorch kernel or an M x M tensor"
            )
            require(
                isinstance(part, kind),
                f"Strategy: {name} is {part!r}, but it must be a {wanted}.",
            )
        require(
            self.inference in get_args(Inference),
            f"Strategy: inference is {self.inference!r}; choose 'auto', 'exact' or 'features'.",
        )
        object.__setattr__(self, "kernel", copy.deepcopy(self.kernel))

    def __repr__(self) -> str:
        parts = {one.name: repr(getattr(self, one.name)) for one in fields(self)}
        parts["kernel"] = describe_kernel(self.kernel)
        return f"Strategy({', '.join(f'{name}={part}' for name, part in parts.items())})"

    # ---------------------------------------------------------------- the contract

    @torch.no_grad()
    def init(
        self,
        domain: Grid,
        *,
        batch_shape: Size | tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> State:
        """The state before the first round.

        Args:
            domain: Where to choose.
            batch_shape: Shape of the trials that advance together; empty for one.
            dtype: Of all that is computed, float64 or float32.
            device: Where it is computed; the domain's unless given.

        Returns:
            A state to pass to :meth:`ask`.

        Raises:
            InputDataError: If the kernel does not fit the domain or is indefinite.
        """
        require_floating(dtype)
        warn_of_rounded_parameters(self.kernel, dtype)
        place = domain.X.device if device is None else torch.device(device)
        basis = domain.basis(self.kernel, self.inference, dtype=dtype, device=place)
        return self._initial(domain, basis, Size(batch_shape))

    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        """The state before the first round of other trials, sharing the kernel factored for these.

        Args:
            state: Any state of this strategy.
            batch_shape: Shape of the new trials.
        """
        return self._initial(state.domain, state.basis, Size(batch_shape))

    def _initial(self, domain: Grid, basis: Basis, shape: Size) -> State:
        dtype, place = basis.variance.dtype, basis.variance.device
        time = torch.zeros(shape, dtype=torch.float64, device=place)
        count = torch.zeros(shape, dtype=torch.int64, device=place)
        return State(
            domain=domain,
            basis=basis,
            told=0,
            dropped=0,
            start=count,
            since=count + 1,
            time=time,
            first_time=time,
            origin=time,
            history=History(
                index=Rows.empty(shape, dtype=torch.int64, device=place),
                y=Rows.empty(shape, dtype=dtype, device=place),
                time=Rows.empty(shape, dtype=torch.float64, device=place),
            ),
            belief=self._engine.prior(basis, shape),
        )

    @torch.no_grad()
    def ask(self, state: State, *, now: float | Tensor | None = None) -> Suggestion:
        """Choose where to measure.

        Args:
            state: All that has been told.
            now: Time of the measurement, a number or `batch_shape`; the newest time told plus one
                unless given. Given, it is also the time from which the age of noise is counted.

        Returns:
            The choice of every trial.

        Raises:
            InputDataError: If ``now`` lies before an observation.
        """
        present, reference = _clock(state, now)
        prediction = self._engine.predict(state, present, reference)
        multiplier = self._multiplier(state, prediction.information_gain, present, reference)
        scratch = state.basis.scratch
        mean, sd = prediction.mean, prediction.sd
        score = scratch.take("score", sd.shape, sd)
        if isinstance(multiplier, Tensor):
            torch.addcmul(mean, sd, multiplier.to(sd).unsqueeze(-1), out=score)
        else:
            torch.add(mean, sd, alpha=multiplier, out=score)
        index = first_maximum(score, TIE_TOLERANCE * state.basis.scale, scratch)
        # Without data the first arm is played, also where prior variances differ.
        index = index * prediction.has_data
        return self._suggestion(
            state, index, at_index(mean, index), at_index(sd, index), multiplier, present
        )

    @torch.no_grad()
    def suggestion_at(
        self, state: State, X: Tensor, *, now: float | Tensor | None = None
    ) -> Suggestion:
        """A suggestion for a choice made elsewhere: history, or somebody's own idea.

        Args:
            state: All that has been told.
            X: The points, `batch_shape x d`.
            now: As in :meth:`ask`.

        Returns:
            What :meth:`tell` needs to take in an observation made at ``X``.

        Raises:
            InputDataError: If a point is off the grid or the shape does not fit.
        """
        index = _arms(state, X, points=Size())
        present, reference = _clock(state, now)
        mean, covariance, gain = self._engine.marginal(
            state, index.unsqueeze(-1), present, reference
        )
        sd = covariance[..., 0, 0].clamp_min(0).sqrt()
        multiplier = self._multiplier(state, gain, present, reference)
        return self._suggestion(state, index, mean[..., 0], sd, multiplier, present)

    @torch.no_grad()
    def tell(
        self,
        state: State,
        suggestion: Suggestion,
        y: Tensor,
        *,
        time: float | Tensor | None = None,
        check: bool = True,
        consume: bool = False,
    ) -> tuple[State, Info]:
        """Take in an observation.

        Args:
            state: The state that made the suggestion.
            suggestion: What was measured, and what was predicted before.
            y: The observations, `batch_shape`.
            time: When they were really made, a number or `batch_shape`; the suggestion's time
                unless given.
            check: Whether to look at the values; doing so waits for the device.
            consume: Whether ``state`` may be used up: its memory then becomes the new state's,
                which is faster for many trials, and ``state`` must not be used again.

        Returns:
            The state of the next round, and what happened.

        Raises:
            InputDataError: If an observation is NaN or infinite, or shape, dtype or device differ
                from the state's, or time runs backwards. The state is not changed.
        """
        when = suggestion.time if time is None else _as_time(state, time, "time")
        if check:
            _check_observation(state, suggestion, y, when)
        fired = None
        if self.retention.uses_data:
            fired = self.retention.fires(y, suggestion.mean, suggestion.sd, self.noise, state.since)
        told = state.told + 1
        history = History(
            index=state.history.index.append(suggestion.index),
            y=state.history.y.append(y),
            time=state.history.time.append(when),
        )
        dropped = max(state.dropped, self.retention.first_kept(told))
        nothing_kept = state.dropped == state.told
        origin = when if nothing_kept else state.origin
        start, since = state.start, state.since + 1
        if fired is not None:
            origin = torch.where(fired, when, origin)
            start = torch.where(fired, state.told, start)
            since = torch.where(fired, 1, since)
        if self.retention.resets(told):
            since = torch.ones_like(since)
        advanced = state._replace(
            told=told,
            dropped=dropped,
            start=start,
            since=since,
            time=when,
            first_time=when if state.told == 0 else state.first_time,
            origin=origin,
            history=history,
        )
        advanced = self._engine.advance(state, advanced, fired, consume=consume)
        info = Info(
            reset=self._has_reset(state, advanced, fired),
            side_queries=torch.zeros_like(since),
            information_gain=0.5 * torch.log1p(suggestion.sd.square() / self.noise),
        )
        return advanced, info

    @torch.no_grad()
    def recommend(self, state: State, *, now: float | Tensor | None = None) -> Tensor:
        """The point with the best posterior mean now, without exploration, `batch_shape x d`."""
        present, reference = _clock(state, now)
        mean = self._engine.predict(state, present, reference).mean
        index = first_maximum(mean, TIE_TOLERANCE * state.basis.scale, state.basis.scratch)
        return _points(state)[index]

    @torch.no_grad()
    def posterior(
        self, state: State, X: Tensor, *, now: float | Tensor | None = None
    ) -> GPyTorchPosterior:
        """The posterior of f_now at some arms, without observation noise.

        Args:
            state: All that has been told.
            X: Points of the grid, `batch_shape x q x d` or `q x d`.
            now: As in :meth:`ask`.

        Returns:
            A joint posterior over q points, batched over `batch_shape`.
        """
        if X.dim() == 2:
            X = X.expand(*state.time.shape, *X.shape)
        index = _arms(state, X, points=X.shape[-2:-1])
        present, reference = _clock(state, now)
        mean, covariance, _ = self._engine.marginal(state, index, present, reference)
        # Lazily: many points of a smooth kernel have a covariance that is singular to rounding.
        return GPyTorchPosterior(MultivariateNormal(mean, DenseLinearOperator(covariance)))

    def numbers_per_trial(self, state: State, horizon: int) -> int:
        """Numbers held and worked on per trial by round ``horizon``, for sizing batches."""
        arms_at_once = 8 * state.basis.arms
        return arms_at_once + self._engine.numbers_per_trial(state.basis, horizon)

    # ---------------------------------------------------------------- steps of the contract

    @property
    def _engine(self) -> Engine:
        recursive = self.inference != "exact" and Recursion.serves(self)
        return Recursion(self) if recursive else FromLog(self)

    def _multiplier(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> float | Tensor:
        doubly = None
        if isinstance(self.width.gain, DoublyWeighted):
            doubly = self._engine.doubly_weighted_gain(state, gain, now, reference)
        return self.width.multiplier(
            WidthContext(
                t=state.told + 1,
                dim=state.domain.dim,
                information_gain=gain,
                weighted_information_gain=doubly,
            )
        )

    def _suggestion(
        self,
        state: State,
        index: Tensor,
        mean: Tensor,
        sd: Tensor,
        multiplier: float | Tensor,
        now: Tensor,
    ) -> Suggestion:
        if not isinstance(multiplier, Tensor):
            multiplier = torch.full_like(mean, multiplier)
        return Suggestion(
            X=_points(state)[index],
            index=index,
            mean=mean,
            sd=sd,
            multiplier=multiplier.to(mean),
            time=now,
        )

    def _has_reset(self, before: State, after: State, fired: Tensor | None) -> Tensor:
        if fired is not None:
            return fired
        none = torch.zeros_like(after.time, dtype=torch.bool)
        if self.retention.resets(after.told):
            return ~none
        if self.retention.restarts and self.retention.uses_time and before.told > 0:
            kept = self.retention.live(
                before.time.unsqueeze(-1),
                after.time.unsqueeze(-1),
                after.first_time.unsqueeze(-1),
            )
            return ~kept.squeeze(-1)
        return none


def _points(state: State) -> Tensor:
    return state.domain.X.to(state.basis.variance)


def _arms(state: State, X: Tensor, points: Size) -> Tensor:
    wanted = (*state.time.shape, *points, state.domain.dim)
    if tuple(X.shape) != wanted:
        raise InputDataError(
            f"X has shape {tuple(X.shape)}, but this state needs {wanted}: batch_shape, then "
            f"{'the number of points and ' if points else ''}d."
        )
    _require_same_kind("X", X, state)
    return state.domain.index_of(X)


def _clock(state: State, now: float | Tensor | None) -> tuple[Tensor, Tensor]:
    """The present and the time from which lags are counted, each `batch_shape`."""
    if now is None:
        return state.time + 1, state.time
    present = _as_time(state, now, "now")
    _require_forward(state, present, "now")
    return present, present


def _as_time(state: State, value: float | Tensor, name: str) -> Tensor:
    time = torch.as_tensor(value, dtype=torch.float64, device=state.time.device)
    if time.dim() > 0 and time.shape != state.time.shape:
        raise InputDataError(
            f"{name} has shape {tuple(time.shape)}, but the state's batch_shape is "
            f"{tuple(state.time.shape)}; give one number, or one per trial."
        )
    time = time.expand(state.time.shape)
    require_trials(time.isfinite(), time, f"is no valid {name}", "times are finite numbers.")
    return time


def _require_forward(state: State, time: Tensor, name: str) -> None:
    if state.told > 0:
        require_trials(
            time >= state.time,
            time,
            f"as {name} lies before the newest observation, at",
            "time does not run backwards; tell observations in order of time.",
            limit=state.time,
        )


def _require_same_kind(name: str, tensor: Tensor, state: State) -> None:
    own = state.basis.variance
    if tensor.dtype != own.dtype or tensor.device != own.device:
        raise InputDataError(
            f"{name} is {tensor.dtype} on {tensor.device}, but the state is {own.dtype} on "
            f"{own.device}; use {name}.to(dtype={own.dtype}, device='{own.device}')."
        )


def _check_observation(state: State, suggestion: Suggestion, y: Tensor, time: Tensor) -> None:
    if not isinstance(y, Tensor):
        raise InputDataError(f"y is {y!r}; pass a tensor of shape {tuple(state.time.shape)}.")
    for name, tensor in (("y", y), ("suggestion.mean", suggestion.mean)):
        if tensor.shape != state.time.shape:
            raise InputDataError(
                f"{name} has shape {tuple(tensor.shape)}, but the state's batch_shape is "
                f"{tuple(state.time.shape)}; give one value per trial."
            )
        _require_same_kind(name, tensor, state)
    require_trials(
        y.isfinite(), y, "as observation y is not finite", "leave the round out, or repair it."
    )
    _require_forward(state, time, "time")
