"""Decay of covariance: how the correlation with an old measurement falls as the objective changes.

A decay is the temporal factor of the covariance,

    cov(f_s(x), f_t(x')) = D(s, t) * k(x, x'),

where times are relative to an origin. Usually D(s, t) = v(min(s, t)) * a(|t - s|): ``v`` is the
prior variance at the earlier time, and ``a`` is the attenuation since the earlier time. There are
three ways to define a custom decay: by ``attenuation`` alone (for a stationary decay of variance
1), by ``attenuation`` together with ``prior_variance``, or by ``covariance`` alone. An example with
``attenuation`` alone:

    class QuasiPeriodic(Decay):
        def attenuation(self, elapsed):
            return torch.exp(-0.05 * elapsed) * torch.cos(0.6 * elapsed)

The class attribute ``parameters`` declares the learnable parameters. In each call, the formula must
read the values of the parameters from the attributes of the same names. During learning, the values
are tensors; otherwise they are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from gpytorch.priors import HalfNormalPrior, LogNormalPrior, Prior
from torch import Size, Tensor
from torch.distributions import constraints
from torch.nn import Module as TorchModule

from botorch_tv.forgetting.base import Decay, Parameter, Values, with_values
from botorch_tv.validation import require, settle_number, shown

USUAL = 0.02
"""Most probable rate of change a priori, per median time between two observations."""
SPREAD = 1.0
"""Prior standard deviation of the logarithm of the rate of change.

The rate is between 1/7 and 7 times its median with a probability of 95 %.
"""
OFFSET = 1e-4
"""Rate of change below which the objective is practically static.

Below this rate, the prior density is almost constant; the density is positive at rate 0, too.
"""


class RatePrior(Prior):  # type: ignore[misc]
    r"""Prior of a rate of change, where the unit of time is the median time between observations.

    .. math:: p(r) \propto \exp\left(-\frac{(\ln(r + c) - \ln m)^2}{2 s^2}\right)

    on [0, upper), with mode m - c. The number s, ``SPREAD``, is the standard deviation of ln(r + c)
    before truncation. The offset c, ``OFFSET``, makes the density positive at rate 0. Under a
    flatter prior, fits to a few dozen observations of a slow drift often give the rate 0 or, if the
    lengthscale is wrong, a rate that is far too high.

    Args:
        mode: The number m in the formula, positive: the mode of the prior plus the offset.
        upper: Upper end of the support; infinite by default.
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012 (PyTorch's name)

    def __init__(self, mode: float = USUAL, upper: float = math.inf) -> None:
        TorchModule.__init__(self)
        super().__init__(validate_args=False)
        self._upper = upper
        # r + c has a truncated log-normal distribution with location ``loc`` and scale ``scale``.
        self.register_buffer("loc", torch.tensor(math.log(mode) + SPREAD**2))
        self.register_buffer("scale", torch.tensor(SPREAD))
        self.register_buffer("offset", torch.tensor(OFFSET))

    @property
    def support(self) -> constraints.Constraint:
        """The interval [0, upper)."""
        if math.isinf(self._upper):
            return constraints.nonnegative
        return constraints.interval(0.0, self._upper)  # type: ignore[no-untyped-call]

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density, in the shape of ``value``."""
        loc, scale, offset = self.loc.to(value), self.scale.to(value), self.offset.to(value)
        log = torch.log(value + offset)
        low, high = self._cut(loc, scale, offset)
        normal = -0.5 * ((log - loc) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
        return normal - log - torch.log(high - low)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008 (immutable)
        """Random draws, of shape ``sample_shape``."""
        low, high = self._cut(self.loc, self.scale, self.offset)
        uniform = torch.rand(torch.Size(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        normal = torch.special.ndtri(low + (high - low) * uniform)
        drawn: Tensor = torch.exp(self.loc + self.scale * normal) - self.offset
        return drawn.clamp(0.0, self._upper * (1 - torch.finfo(drawn.dtype).eps))

    def expand(self, batch_shape: Any, _instance: Any = None) -> RatePrior:
        """Return this prior unchanged, because the prior has no batch shape."""
        return self

    def _cut(self, loc: Tensor, scale: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
        """The log-normal distribution function at the lower and at the upper end of the support."""
        low = torch.special.ndtr((offset.log() - loc) / scale)
        if math.isinf(self._upper):
            return low, torch.ones_like(low)
        return low, torch.special.ndtr(((self._upper + offset).log() - loc) / scale)


LARGEST_EPSILON = 1.0 - 1e-6
"""Upper bound of ε during learning. For larger ε, rounding destroys the gradient of
(1 - ε)^(Δt/2)."""
ENDLESS = 1e30
"""Finite number that replaces -ln(1 - ε) at ε = 1; large in any unit of time, and valid in float32.
"""


@dataclass(frozen=True)
class Markov(Decay):
    """Each round mixes the objective with a prior draw: f_{t+1} = √(1 - ε) f_t + √ε g_{t+1}.

    The functions g_t are independent draws from the prior of f_t. The covariance is multiplied by
    (1 - ε)^(|t - t'| / 2), [B16] eq. (7)-(8).

    Args:
        epsilon: Rate of change ε per unit of time, in [0, 1].

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1].
    """

    epsilon: float

    markovian = True
    process_name = "markov"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "epsilon": Parameter(
            upper=LARGEST_EPSILON,
            power=-1,
            share="lost",
            prior=HalfNormalPrior(0.25),
            beside_scale=RatePrior(upper=1.0),
            fastest=0.999,
            uncorrelated_beyond=0.9,
            fast_start=0.1,
        )
    }

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", "[0, 1]", "0 keeps the objective static, 1 redraws it.")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.exp(0.5 * _log_retained(self.epsilon) * elapsed)


@dataclass(frozen=True)
class Wiener(Decay):
    """The objective is a random walk: its variance grows by σ_w² k(x, x) per unit of time.

    The covariance is multiplied by 1 + σ_w² min(t, t'). The strategy UI-TVBO in [ET] assumes this
    random walk.

    Args:
        sigma_w2: Variance σ_w² gained per unit of time, relative to the kernel's variance; at
            least 0.

    Raises:
        ValueError: If ``sigma_w2`` is negative or not finite.
    """

    sigma_w2: float

    markovian = True
    process_name = "wiener"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "sigma_w2": Parameter(
            power=-1,
            prior=HalfNormalPrior(0.25),
            beside_scale=RatePrior(),
            fastest=1e3,
            uncorrelated_beyond=9.0,  # at 9, 90 % of the next observation's variance is from change
            fast_start=0.1,
        )
    }

    def __post_init__(self) -> None:
        settle_number(self, "sigma_w2", "[0, 1e100]", "0 keeps the objective static.")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        return 1 + self.sigma_w2 * elapsed


def _log_retained(epsilon: float | Tensor) -> float | Tensor:
    """ln(1 - ε), but at ε = 1 a finite number with a finite gradient."""
    if not isinstance(epsilon, Tensor):
        return math.log1p(-epsilon) if epsilon < 1 else -ENDLESS
    below = epsilon.clamp_max(1 - torch.finfo(epsilon.dtype).eps)
    return torch.where(epsilon < 1, torch.log1p(-below), -ENDLESS)


@dataclass(frozen=True)
class PeriodicMarkov(Decay):
    """A periodic objective that changes slowly from cycle to cycle.

    The covariance is multiplied by (1 - ε)^(|t - t'| / 2) exp(-2 sin²(π |t - t'| / P) / ℓ²). The
    first factor is the attenuation of :class:`Markov`; the second factor is the periodic covariance
    of MacKay (1998). TV-BayesOpt of Fleming et al., PLOS Comput. Biol. 19 (2023), also combines "a
    gradual forgetting and periodic covariance functions".

    Args:
        epsilon: Rate of change ε per unit of time, in [0, 1].
        cycle: Length P of a cycle, in units of time, positive.
        cycle_lengthscale: Lengthscale ℓ within a cycle, positive; opposite phases have correlation
            exp(-2 / ℓ²).

    Raises:
        ValueError: If a number is out of range.
    """

    epsilon: float
    cycle: float
    cycle_lengthscale: float

    parameters: ClassVar[Mapping[str, Parameter]] = {
        **Markov.parameters,
        "cycle": Parameter(lower=2.0, power=1),  # a cycle has at least two measurements
        "cycle_lengthscale": Parameter(lower=0.05, upper=20.0),
    }

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", "[0, 1]", "0 means that all cycles are equal.")
        settle_number(self, "cycle", "[1e-100, 1e100]", "give a length of time.")
        settle_number(self, "cycle_lengthscale", "[1e-3, 1e3]", "1 is usual.")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        phase = torch.sin(torch.pi * elapsed / self.cycle) / self.cycle_lengthscale
        return Markov.attenuation(self, elapsed) * torch.exp(-2 * phase.square())  # type: ignore[arg-type]


FARTHEST = 1e3
"""Largest √(2ν) |t - t'| / ℓ in a Matérn covariance, which is 0 there; inf * 0 would be NaN."""


@dataclass(frozen=True)
class Smooth(Decay):
    """The objective at each point is a smooth function of time, unlike that of :class:`Markov`.

    The covariance is multiplied by a Matérn or squared exponential covariance of the time
    difference, Rasmussen and Williams (2006), eq. (4.9), (4.17). Successive changes then resemble
    each other, so predictions continue a trend. The covariance is not Markovian, so every posterior
    is computed by regression. An ordinary kernel over the column of time is the same model.

    Args:
        time_lengthscale: Lengthscale in units of time, positive; at this time difference, the
            correlation is 0.48, 0.52 or 0.61 for ``nu`` 1.5, 2.5 or inf.
        nu: Smoothness: 1.5 or 2.5, for an objective that is once or twice differentiable in time,
            or inf, the default, for the squared exponential covariance.

    Raises:
        ValueError: If ``time_lengthscale`` is not positive, or if ``nu`` is another number.
    """

    time_lengthscale: float
    nu: float = math.inf

    parameters: ClassVar[Mapping[str, Parameter]] = {
        # The rates of Markov with such correlations have about the density of RatePrior.
        "time_lengthscale": Parameter(
            lower=0.5, power=1, prior=LogNormalPrior(math.log(20.0), SPREAD), fast_start=5.0
        )
    }

    def __post_init__(self) -> None:
        settle_number(self, "time_lengthscale", "[1e-100, 1e100]", "give a length of time.")
        good = isinstance(self.nu, float) and self.nu in (1.5, 2.5, math.inf)
        fix = "use Markov for 0.5."
        require(good, f"Smooth: nu is {shown(self.nu)}, but it must be 1.5, 2.5 or inf; {fix}")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        if math.isinf(self.nu):
            return torch.exp(-0.5 * (elapsed / self.time_lengthscale).square())
        far = (math.sqrt(2 * self.nu) * elapsed / self.time_lengthscale).clamp_max(FARTHEST)
        polynomial = 1 + far if self.nu == 1.5 else 1 + far + far.square() / 3
        return polynomial * torch.exp(-far)


class PerTrial(Decay):
    """A decay whose parameters have separately learned values in each trial.

    Args:
        decay: The decay whose formula is evaluated with the learned values.
        values: Values of all parameters that the decay declares, `batch_shape` each, measured in
            each trial's ``unit``.
        unit: Length of each trial's unit of time, measured in the data's unit of time,
            `batch_shape`.
    """

    def __init__(self, decay: Decay, values: Values, unit: Tensor) -> None:
        self.decay, self.values, self.unit = decay, values, unit

    @property
    def markovian(self) -> bool:  # type: ignore[override]
        return self.decay.markovian

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        dims = max(first.dim(), second.dim())
        unit = _leading(self.unit, dims)
        values = {name: _leading(value, dims) for name, value in self.values.items()}
        return with_values(self.decay, values).covariance(first / unit, second / unit)

    def value(self, name: str) -> Tensor:
        """The value of a parameter in the data's unit of time, `batch_shape`.

        If the data's unit of time is long, a fraction lost per unit may round to 1.
        """
        return self.decay.parameters[name].counted(self.values[name], 1 / self.unit, self.values)

    def reshaped(self, batch_shape: Size) -> PerTrial:
        """The same decay with another batch shape."""
        values = {name: value.view(batch_shape) for name, value in self.values.items()}
        return PerTrial(self.decay, values, self.unit.view(batch_shape))


def _leading(parameter: Tensor, dims: int) -> Tensor:
    """One number per trial, with dimensions of size 1 appended to make ``dims`` dimensions."""
    return parameter.view((*parameter.shape, *[1] * (dims - parameter.dim())))
