"""Strategies that take a kernel: their base class, and :class:`GPStrategy`."""

from __future__ import annotations

import copy
import functools
import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.acquisition import Exploration, Logarithmic, UpperConfidence, Width
from botorch_tv.forgetting import (
    Decay,
    Inflation,
    KeepAll,
    Lifetime,
    Log,
    Retained,
    Retention,
    Static,
)
from botorch_tv.forgetting.formulas import require_inflating, require_learnable, require_sound
from botorch_tv.forgetting.retention import require_rules
from botorch_tv.gp.arms import ArmRecursion, ArmRegression
from botorch_tv.gp.box import BoxPrior, PointBasis
from botorch_tv.gp.covariance import Inference as Method
from botorch_tv.gp.covariance import part_text, warn_of_rounded_parameters
from botorch_tv.gp.data import Prior
from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.point_recursion import Features, PointRecursion, refusal
from botorch_tv.gp.points import PointRegression
from botorch_tv.gp.process import Inference, Process
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning.fit import learn
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.learning.refit import Refit
from botorch_tv.strategies.arguments import NEARLY_EXACT, Measured, fingerprinted, least_noise
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.misspecification import (
    warn_of_clock,
    warn_of_domain,
    warn_of_observation,
)
from botorch_tv.strategies.process_strategy import ProcessStrategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import largest, require, require_noise, require_number, settle_number

FEW_ARMS = 256
"""Largest number of arms for which features are used if noise ages: with features a round costs
arms³ operations, without features rounds³. In float32 features are not used in this case, because
the matrix of regression is better conditioned than the matrix of features."""
FEW_FEATURES = 128
"""Largest number of features that ``"auto"`` uses on a box. With n features every round, even the
first, costs as much as a regression on n observations."""
MOST_FEATURES = 1024
"""Largest number of features on a box if features are requested."""
AUTO_TOLERANCE = 1e-8
"""Largest error of features that ``"auto"`` uses. The results of other methods may differ from each
other by as much."""

FORMULAS = {"kernel", "decay", "inflation", "width"}
"""Names of fields that are copied, so later changes to the originals do not affect a strategy."""


BEGUN_WITH = ("kernel", "noise", "mean", "decay", "inflation")
"""Names of fields that determine a state. A strategy refuses a state that was computed with other
values of these fields."""


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelStrategy(ProcessStrategy):
    """A strategy with a given kernel and a given noise variance.

    Args:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`.
        noise: Noise variance σ² of a new observation.
        width: The confidence schedule sqrt(beta_t).
        maximize: False to minimise.
        mean: Prior mean: a number, or ``"estimated"``.
        inference: The method that computes the posterior; see :class:`GPStrategy`.

    Raises:
        ValueError: If ``noise`` is not positive or ``mean`` is not finite.
    """

    kernel: Kernel | Tensor
    noise: float
    width: Width = field(default_factory=Logarithmic)
    maximize: bool = True
    mean: float | Literal["estimated"] = 0.0
    inference: Method | Features = "auto"

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "noise", require_noise(f"{name}: noise", self.noise))
        if not (isinstance(self.mean, str) and self.mean == "estimated"):
            settle_number(self, "mean", "(-inf, inf)", "or give 'estimated'.")
        require(
            isinstance(self.maximize, bool),
            f"{name}: maximize is {self.maximize!r}, but it must be a bool; False to minimise.",
        )
        require(
            isinstance(self.inference, Features) or self.inference in get_args(Method),
            f"{name}: inference is {self.inference!r}; choose 'auto', 'exact', 'features' or "
            "Features(tolerance=...).",
        )
        for part in {item.name for item in fields(self)} & FORMULAS:
            object.__setattr__(self, part, copy.deepcopy(getattr(self, part)))
        require_sound(self.process.decay)
        require_inflating(self.process.inflation)

    @functools.cached_property
    def process(self) -> Process:
        """Everything that a posterior depends on, except the data."""
        return Process(
            kernel=self.kernel,
            noise=self.noise,
            mean=self.mean,
            decay=self.decay,
            inflation=self.inflation,
            retention=self._rules,
        )

    @property
    def _rules(self) -> tuple[Retention, ...]:
        """The rules of retention."""
        return ()

    @property
    def _learns(self) -> Refit | None:
        """The settings of online learning; None if nothing is learned."""
        return None

    @functools.cached_property
    def _begun(self) -> tuple[str, ...]:
        parts = {name: getattr(self.process, name) for name in BEGUN_WITH}
        try:
            return tuple(
                fingerprinted(f"{name} {part_text(part)}", part) for name, part in parts.items()
            )
        except Exception:  # a part may lack a working repr
            return ()

    def __repr__(self) -> str:
        names = [item.name for item in fields(self)]
        parts = ", ".join(f"{name}={part_text(getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({parts})"

    def inference_for(self, domain: Domain, prior: Prior | None = None) -> Inference:
        """The inference that computes the posterior on a domain.

        Args:
            domain: The domain.
            prior: The prior on the domain. On a box, the type of the prior decides whether
                inference uses features or points.
        """
        on_grid, in_features, on_points = self._inferences
        if isinstance(prior, PointBasis):
            return in_features
        return on_points if isinstance(domain, Box) else on_grid

    @functools.cached_property
    def _inferences(self) -> tuple[Inference, Inference, Inference]:
        """Three inferences: on the arms of a grid, in features of a box, and on points of a box."""
        recursive = self._method != "exact" and ArmRecursion.serves(self.process)
        on_grid = ArmRecursion if recursive else ArmRegression
        kinds = (on_grid, PointRecursion, PointRegression)
        return tuple(kind(self.process, samples=self.exploration.samples) for kind in kinds)  # type: ignore[return-value]

    @property
    def _method(self) -> Method:
        return "features" if isinstance(self.inference, Features) else self.inference

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        warn_of_rounded_parameters(self.kernel, dtype)
        method = self._method
        # For few arms, features cost less than a regression on all data in every round.
        few = isinstance(domain, Grid) and len(domain) <= FEW_ARMS and dtype == torch.float64
        few = few and not isinstance(self.inference_for(domain), ArmRecursion)
        # Samples need a matrix root of the covariance; features provide this root.
        if method == "auto" and (self.exploration.samples or few):
            method = "features"
        like = torch.empty((), dtype=dtype, device=device)
        prior = self._represented(domain, domain.prior(self.kernel, method, like))
        self._require_scales(prior.scale**2, dtype)
        assert not isinstance(prior, BankPrior)
        warn_of_domain(self.process, self._learns, domain, prior)
        return self._initial(domain, prior, shape)

    def _represented(self, domain: Domain, prior: Prior) -> Prior:
        """The prior on a domain; on a box, features may represent the kernel.

        Features are used if they are requested, or if they are nearly exact and make rounds faster.

        The result depends only on the domain and the kernel, not on the number of rounds.

        Raises:
            InputDataError: If features are requested, but not possible for this process and domain.
        """
        method = self.inference
        if not isinstance(domain, Box) or not isinstance(prior, BoxPrior) or method == "exact":
            return prior
        asked = method != "auto"
        found: PointBasis | str | None = refusal(
            self.process, prior.variance.dtype, domain.context_dim
        )
        if found is None and (asked or not self.exploration.samples):
            wanted = method if isinstance(method, Features) else Features()
            limits = (wanted.tolerance, MOST_FEATURES) if asked else (AUTO_TOLERANCE, FEW_FEATURES)
            found = domain.in_features(self.process, prior, *limits)
        if isinstance(found, PointBasis):
            return found
        if not asked:
            return prior
        raise InputDataError(
            f"inference is {method!r}, but features are not possible here: {found} "
            "Use inference='exact'."
        )

    def _check(self, state: State, measured: Measured) -> None:
        _, y, variance, when, *_ = measured
        warn_of_observation(self.process, self._learns, state, y, variance, when)
        if self._learns is None and state.data.rounds == 2:
            warn_of_clock(self.process, state, when)

    def _require_scales(self, variance: float, dtype: torch.dtype) -> None:
        """Check that variance, noise, mean and decay can be represented in a dtype.

        Args:
            variance: Largest prior variance.
            dtype: Dtype of all computations.

        Raises:
            InputDataError: If the kernel's variance is out of range.
            ValueError: If the noise variance, the prior mean or the growth of the variance is out
                of range.
        """
        name, most, decay = type(self).__name__, largest(dtype), self.process.decay
        if not 1 / most <= variance <= most:
            raise InputDataError(
                f"the kernel's variance is {variance:g}, but in {dtype} it must lie between "
                f"{1 / most:g} and {most:g}; measure the objective in another unit."
            )
        fix = f"in {dtype}, for a kernel of variance {variance:g}; use {NEARLY_EXACT[dtype]:g} "
        fix += "times that variance for nearly exact measurements."
        least = least_noise(variance, dtype)
        require_number(f"{name}: noise", self.noise, f"[{least:g}, {most:g}]", fix)
        limit, fix = most * min(1.0, math.sqrt(self.noise)), f"in {dtype}; choose another unit."
        if not isinstance(self.mean, str):
            require_number(f"{name}: mean", self.mean, f"[{-limit:g}, {limit:g}]", fix)
        unit = torch.ones((), dtype=torch.float64, device="cpu")
        growth = float(decay.prior_variance(unit)) * variance
        fix = f"per unit of time, in {dtype}; count time in a shorter unit."
        named = f"{name}: growth of the variance by {decay!r}"
        require_number(named, growth, f"[0, {most:g}]", fix)


@dataclass(frozen=True, kw_only=True, repr=False)
class GPStrategy(KernelStrategy):
    """A bandit composed of a decay, an inflation, a retention and an exploration.

    Every posterior is a posterior of f_now, with

        mean(x) = k~ᵀ (K ∘ D + N)⁻¹ y,   var(x) = k(x, x) - k~ᵀ (K ∘ D + N)⁻¹ k~.

    Here K is the spatial covariance matrix of the observations, D their covariance in time, N the
    diagonal matrix of their noise variances, and k~ their covariances with f_now(x). The decay
    determines D and k~, the inflation determines N, and the retention selects the observations. The
    choice usually maximises mean(x) + sqrt(beta) sd(x). Arms whose scores lie within 1e-7 standard
    deviations of the highest score are tied; the tied arm with the lowest index is chosen. Without
    data, the choice is the first arm of a grid, or the centre of a box.

    Args:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`. Kernel,
            decay, inflation and width are copied, so later changes to them do not affect the
            strategy. Retention and exploration are not copied; by contract they never change.
        noise: Noise variance of a new observation: σ², or λ for exponential weights.
        decay: The decay of covariance with the time between measurements.
        inflation: The growth of the noise variance with the age of a measurement.
        retention: The rule that decides which measurements are retained, or a tuple of rules. With
            several rules, a measurement is retained only if every rule retains it.
        width: The confidence schedule sqrt(beta_t), for explorations based on confidence bounds.
        exploration: The rule that chooses from the posterior; upper confidence bounds by default.
        maximize: False to minimise. Predictions always have the sign and the units of y.
        mean: Prior mean of the objective: a number, or ``"estimated"``, which estimates a constant
            by generalised least squares from the data in use: 1ᵀA⁻¹y / 1ᵀA⁻¹1 with A = K ∘ D + N.
            The posterior variance does not include the uncertainty of the estimated mean.
        inference: ``"features"`` factors the kernel once, and with constant noise each observation
            is a rank-one update. ``"exact"`` computes a regression on the log of observations in
            every round. ``"auto"`` is the faster of ``"features"`` and ``"exact"``; the choices are
            the same. On a box, ``"features"`` is approximate, and
            :class:`~botorch_tv.strategies.Features` sets the largest allowed error; a kernel that
            cannot meet this error bound is refused. With ``"features"``, the cost of a round does
            not grow with the number of rounds. If the kernel is learned, or an expert's answers
            replace data, only ``"exact"`` is available.
        learning: Settings that say which hyperparameters are learned online, and when; only on
            boxes. If hyperparameters are learned, ``kernel``, ``noise`` and ``decay`` are their
            initial values. The guarantees of widths and triggers assume given hyperparameters, and
            do not hold for learned hyperparameters.

    Raises:
        ValueError: If ``noise`` is not positive or ``mean`` is not finite.
    """

    decay: Decay = field(default_factory=Static)
    inflation: Inflation = field(default_factory=Static)
    retention: Retention | tuple[Retention, ...] = field(default_factory=KeepAll)
    exploration: Exploration = field(default_factory=UpperConfidence)
    learning: Refit | None = None

    by_parts = True

    def __post_init__(self) -> None:
        require_rules(self.retention)
        super().__post_init__()

    @property
    def _rules(self) -> tuple[Retention, ...]:
        rules = self.retention if isinstance(self.retention, tuple) else (self.retention,)
        return tuple(rule for rule in rules if rule.retained_for != Lifetime())

    def _represented(self, domain: Domain, prior: Prior) -> Prior:
        if self.learning is None:
            return super()._represented(domain, prior)
        require(
            isinstance(domain, Box),
            f"GPStrategy.init: hyperparameters are learned on a Box, not on {domain!r}; use "
            "Box(bounds, search=DiscreteSearch(X)), or learning=None.",
        )
        assert isinstance(domain, Box)
        assert isinstance(self.kernel, Kernel)
        parts = LearnableKernel(self.kernel)  # refuses an unsupported kernel before the first round
        ranges = parts.columns(domain.extent.unsqueeze(0))[0]
        if ParameterLayout(self.learning, parts, self.decay, self.noise, ranges).learns_decay:
            require_learnable(self.decay)
        return prior

    @property
    def _learns(self) -> Refit | None:
        return self.learning

    def _relearned(self, state: State) -> State:
        if self.learning is None or not self.learning.due(state.data.rounds):
            return state
        box, box_prior = state.domain, state.basis
        assert isinstance(box, Box)
        assert isinstance(box_prior, BoxPrior)
        given, trials = box_prior.unlearned(), state.time.numel()
        data, first, given_mean = state.data, state.data.dropped, self.process.given_mean
        choice, y, noise, time = (rows.tensor(first) for rows in data.history)
        lag = state.time.unsqueeze(-1) - time

        def flat(part: Tensor) -> Tensor:
            return part.reshape(trials, *part.shape[state.time.dim() :])

        learned = learn(
            self.learning,
            given.kernel,
            self.decay,
            self.noise,
            flat(choice),
            # Rows before the origin are not retained, so their times do not matter.
            flat((time - data.origin.unsqueeze(-1)).clamp_min(0)),
            flat(y - (given_mean or 0.0)),
            flat(data.retained & noise.isfinite()),
            flat(noise / self.noise),
            box_prior.parameters,
            inflation=None
            if self.inflation.is_static
            else flat(self.inflation.log_factor(lag).exp()),
            estimates_mean=given_mean is None,
            extent=box.extent,
        )
        found = replace(
            box_prior,
            kernel=learned.kernel,
            decay=None if self.decay.is_static else learned.decay.reshaped(state.time.shape),
            noise_factor=learned.noise / self.noise,
            given=given,
            parameters=learned.vector,
        )
        return state._replace(data=data._replace(prior=found))

    def undisturbed(self) -> GPStrategy:
        if not self.process.reacts and self.learning is None:
            return self
        given = self.process.retention
        rules = tuple(Undisturbed(rule) if rule.reacts else rule for rule in given)
        return replace(self, retention=rules or KeepAll(), learning=None)


@dataclass(frozen=True)
class Undisturbed(Retention):
    """A retention rule without its trigger: new observations do not change what it retains.

    Args:
        rule: The retention.
    """

    rule: Retention

    def init(self, batch_shape: Size) -> Any:
        return self.rule.init(batch_shape)

    def keep(self, log: Log) -> Retained | Tensor:
        return self.rule.keep(log.before_a_choice())
