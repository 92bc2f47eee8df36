"""Worlds on a grid (static, abrupt, gradual, Markov, oscillating) and the functions they draw."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.gp.basis import Basis, FeatureBasis, ProductBasis
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld, InFeatures, Objective, arguments_shown
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require, require_integer, require_number


class DrawnWorld(GridWorld):
    """A world whose objectives are made of a few functions, which are drawn anew for every trial.

    Args:
        domain: The arms.
        functions: One distribution for all functions, or a sequence with a distribution for each.
        count: Number of functions per trial.
        noise: Variance of the observation noise.

    Attributes:
        functions: The distribution of each function, a tuple of length ``count``.

    Raises:
        ValueError: If the number of distributions is not ``count``, or if all functions would be
            the same user-defined function.
    """

    def __init__(
        self,
        domain: Grid,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        count: int,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        name = type(self).__name__
        each = functions if isinstance(functions, Sequence) else (functions,) * count
        self.functions = tuple(each)
        require(
            len(self.functions) == count,
            f"{name}: functions has {len(self.functions)} distributions, but this world has "
            f"{count} functions; give {count} distributions, or a single distribution for all.",
        )
        require(
            count == 1 or isinstance(functions, Sequence) or functions.fresh,
            f"{name}: functions is {functions!r}, the same function {count} times; give "
            f"{count} functions as [FixedFunctions(first), FixedFunctions(second), ...].",
        )

    def draw(self, stream: Stream) -> list[FunctionDraw]:
        """The functions of every trial, in the order in which :meth:`rounds` uses them.

        Args:
            stream: Random numbers for the trials; ``stream.dtype`` and ``stream.device`` also apply
                to the result.
        """
        return [functions.draw(self.domain, stream) for functions in self.functions]


class StaticWorld(DrawnWorld):
    """One function for all rounds of a trial, [C17] §6.

    Args:
        domain: The arms.
        functions: Distribution of the function.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``noise`` is negative or not finite, or if ``functions`` is not a
            distribution.
    """

    def __init__(self, domain: Grid, *, functions: FunctionDistribution, noise: float) -> None:
        super().__init__(domain, functions, 1, noise)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        [drawn] = self.draw(stream)
        while True:
            yield drawn.values


class AbruptWorld(DrawnWorld):
    """f_t = f1 for t < changes[0], f2 for changes[0] <= t < changes[1], and so on, [W22] §7.

    Args:
        domain: The arms.
        functions: One distribution for all functions, or a list with a distribution for each.
        changes: The rounds in which f2, f3, ... begin, in increasing order. Rounds count from 1, so
            ``changes`` contains no number below 2. [W22] uses (100, 200).
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``changes`` are below 2 or do not increase, if ``noise`` is negative or not
            finite, or if the number of functions is not the number of changes plus 1.
    """

    def __init__(
        self,
        domain: Grid,
        *,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        changes: Sequence[int],
        noise: float,
    ) -> None:
        fix = "a change is the first round of a function."
        changes = tuple(require_integer("AbruptWorld: changes", t, 2, fix) for t in changes)
        require(
            all(earlier < later for earlier, later in pairwise(changes)),
            f"AbruptWorld: changes is {changes}, but must increase; sort the rounds.",
        )
        super().__init__(domain, functions, len(changes) + 1, noise)
        self.changes = changes

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        drawn = self.draw(stream)
        piece = 0
        for t in count(1):
            piece += t in self.changes
            yield drawn[piece].values


class DriftWorld(DrawnWorld):
    """f_t = f1 + (f2 - f1) t / T, [W22] §7, or several linear pieces of this form, [W22] §E.

    The functions 0, 1, ..., L are joined by L linear pieces, called legs. With p = L t / T, the
    objective of round t interpolates linearly between functions ⌊p⌋ and ⌊p⌋ + 1, at the fraction p
    - ⌊p⌋. The objective of the last round, f_T, is therefore function L, and f_1 is close to
    function 0.

    Args:
        domain: The arms.
        functions: One distribution for all functions, or a list with a distribution for each.
        horizon: Number of rounds T, at least 1; the world ends after round T. [W22] uses 500.
        legs: Number L of linear pieces between L + 1 functions. [W22] uses one linear piece, and
            two linear pieces in the appendix.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Number of rounds T.

    Raises:
        ValueError: If ``horizon`` or ``legs`` is not an integer of at least 1, if ``noise`` is
            negative or not finite, or if the number of functions is not the number of legs plus 1.
    """

    horizon: int

    def __init__(
        self,
        domain: Grid,
        *,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        horizon: int,
        legs: int = 1,
        noise: float,
    ) -> None:
        legs = require_integer("DriftWorld: legs", legs, 1, "1 joins two functions.")
        super().__init__(domain, functions, legs + 1, noise)
        fix = "give the number of rounds of all legs."
        self.horizon = require_integer("DriftWorld: horizon", horizon, 1, fix)
        self.legs = legs

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        ends = [drawn.values for drawn in self.draw(stream)]
        values = torch.empty_like(ends[0], memory_format=torch.contiguous_format)
        for t in range(1, self.horizon + 1):
            # Integer arithmetic avoids rounding, because a leg must end exactly at a function.
            leg, rest = divmod(self.legs * t, self.horizon)
            if rest == 0:
                values.copy_(ends[leg])
            else:
                torch.lerp(ends[leg], ends[leg + 1], rest / self.horizon, out=values)
            yield values


class MarkovWorld(GridWorld):
    """One draw from a Gaussian process per trial; it drifts by the Markov model, [B16] §2.

    f_1 = g_1 and f_{t+1} = sqrt(1 - ε) f_t + sqrt(ε) g_{t+1} with independent draws g from the
    kernel's Gaussian process. Each round needs a normal variate for each feature of the kernel.

    Args:
        domain: The arms.
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        epsilon: Rate of change ε, in [0, 1].
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1] or ``noise`` is negative.
    """

    only_values = True

    def __init__(
        self, domain: Grid, *, kernel: Kernel | Tensor, epsilon: float, noise: float
    ) -> None:
        super().__init__(domain, noise)
        self._draw = GaussianDraw(kernel)
        self.kernel = self._draw.kernel
        fix = "0 is a static objective."
        self.epsilon = require_number("MarkovWorld: epsilon", epsilon, "[0, 1]", fix)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        values = basis.variance.new_empty(stream.trials, basis.arms)
        for position in self._positions(basis, stream):
            yield basis.expand(position, out=values)

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        if type(self).rounds is not MarkovWorld.rounds or not isinstance(basis, ProductBasis):
            return super().objectives(stream)
        values = basis.variance.new_empty(stream.trials, basis.arms)
        return (InFeatures(basis, position, values) for position in self._positions(basis, stream))

    def _positions(self, basis: FeatureBasis, stream: Stream) -> Iterator[Tensor]:
        """Coordinates of the objective in the features, `trials x r`, in rounds 1, 2, ..."""
        position = self._draw.coordinates(basis, stream)
        stay, move = math.sqrt(1 - self.epsilon), math.sqrt(self.epsilon)
        while True:
            # The draws of many rounds are converted to coordinates together, because this is
            # faster.
            normals = stream.leading_normals_ahead(basis.normals, basis.arms)
            steps = basis.draw_from_prior(normals.to(basis.variance.dtype)).mul_(move)
            for step in steps.unbind(1):
                yield position
                position = torch.add(step, position, alpha=stay)


class PowerLawWorld(GridWorld):
    """Changes with a variance that grows as a power of age, [M] Assumption 2.

    The variance of f_t(x) - f_s(x) is κ σ² |t - s|^α k(x, x), where σ² is the variance of the
    observation noise; with k(x, x) = 1 and κ = 1 this is eq. (7), the model of
    :class:`~botorch_tv.forgetting.UncertaintyInjection`. f_1 is a draw from the kernel's Gaussian
    process, and the changes after it are fractional Brownian motion: for α = 1 Brownian motion, in
    which changes over disjoint periods are independent. For other α no process has both these
    variances and independent changes, as Assumption 2 requires, and for α > 2 no process has these
    variances. The norm of f_t is not bounded.

    Args:
        domain: The arms.
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        alpha: Exponent α, in [0, 2); κ σ² is the variance of a change over one round.
        horizon: Number of rounds T, at least 1; the world ends after round T.
        kappa: Factor κ, at least 0.
        noise: Variance σ² of the observation noise.

    Raises:
        ValueError: If a parameter is out of range or not finite.
    """

    horizon: int

    def __init__(
        self,
        domain: Grid,
        *,
        kernel: Kernel | Tensor,
        alpha: float,
        horizon: int,
        kappa: float = 1.0,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        self._draw = GaussianDraw(kernel)
        self.kernel = self._draw.kernel
        fix = "1 is Brownian motion."
        self.alpha = require_number("PowerLawWorld: alpha", alpha, "[0, 2)", fix)
        self.horizon = require_integer("PowerLawWorld: horizon", horizon, 1, "give the rounds.")
        self.kappa = require_number("PowerLawWorld: kappa", kappa, "[0, 1e100]", "1 is usual.")

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        first = self._draw.coordinates(basis, stream)
        yield basis.expand(first)
        age = torch.arange(1, self.horizon, dtype=torch.float64, device=stream.device)
        apart = (age.unsqueeze(-1) - age).abs()
        power = torch.where(apart > 0, apart, 1.0) ** self.alpha * (apart > 0)
        ages = age**self.alpha
        root = torch.linalg.cholesky((ages.unsqueeze(-1) + ages - power) / 2).to(first)
        root = root * math.sqrt(self.kappa * self.noise)
        drawn = first.new_empty(stream.trials, self.horizon - 1, first.shape[-1])
        for t in range(self.horizon - 1):
            drawn[:, t] = self._draw.coordinates(basis, stream)
            yield basis.expand(first + root[t, : t + 1] @ drawn[:, : t + 1])


class SineWorld(GridWorld):
    """f_t = Σ_i a_i(t) k(·, c_i), a(t) = (scale / λ_max) u(t) / |u(t)|, [M] §4.1.

    u_i(t) = sin(frequency t + i) for i = 1, ..., n, and λ_max is the largest eigenvalue of the
    kernel matrix of the centers. Trials differ only in their noise. The norm of f_t in the kernel's
    function space is at most scale / √λ_max. [M] states that the norm of f_t is at most ``scale``;
    this statement holds only if the eigenvalue λ_max is at least 1. With the parameters of [M], the
    eigenvalue λ_max is 0.71, and within 500 rounds the norm of f_t reaches 5.48.

    Because the centers are evenly spaced, f is a wave that travels along the line at a constant
    speed. In a round the wave moves by ``frequency`` times the distance between neighbouring
    centers. Because the wave has a constant speed, a measurement becomes outdated at a constant
    rate. With the ``frequency`` of [M], a window of two rounds works well, so this world does not
    test whether a strategy detects outdated data.

    Args:
        domain: The arms.
        kernel: A GPyTorch kernel; a matrix is not possible, because centers need not be arms.
        centers: The number n of evenly spaced points c_i from the first to the last arm.
        scale: Factor ``scale`` of the weights a_i(t), at least 0; [M] uses 5.
        frequency: Increase of the phase in a round, in radians; [M] uses 0.3.
        noise: Variance of the observation noise.

    Attributes:
        centers: The points c_i, `n x 1`.

    Raises:
        ValueError: If a parameter is out of range or not finite, or if the domain has several
            dimensions.
    """

    def __init__(
        self,
        domain: Grid,
        *,
        kernel: Kernel,
        centers: int = 20,
        scale: float = 5.0,
        frequency: float = 0.3,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        self.kernel = copy.deepcopy(kernel)
        centers = require_integer("SineWorld: centers", centers, 1, "the paper uses 20.")
        require(
            domain.dim == 1,
            f"SineWorld: domain has {domain.dim} dimensions, but centers are evenly spaced on a "
            "line; give a domain with 1 dimension.",
        )
        first, last = domain.X.double().aminmax()
        line = torch.linspace(float(first), float(last), centers, dtype=torch.float64, device="cpu")
        self.centers = line.unsqueeze(-1)
        self.scale = require_number("SineWorld: scale", scale, "[0, 1e100]", "the paper uses 5.")
        fix = "the paper uses 0.3."
        self.frequency = require_number("SineWorld: frequency", frequency, "(-inf, inf)", fix)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        arms, centers = (X.double().to(stream.device) for X in (self.domain.X, self.centers))
        # The kernel is copied, because Module.to() moves a module in place.
        with torch.no_grad():
            covariance = copy.deepcopy(self.kernel).to(arms)(arms, centers).to_dense()
            among = copy.deepcopy(self.kernel).to(self.centers)(self.centers).to_dense()
        largest = float(torch.linalg.eigvalsh(among)[-1])
        values = covariance.new_empty(stream.trials, len(arms), dtype=stream.dtype)
        number = torch.arange(1, len(centers) + 1, dtype=centers.dtype, device=centers.device)
        for t in count(1):
            u = torch.sin(self.frequency * t + number)
            unit: Tensor = u / u.norm()
            yield values.copy_(covariance @ (self.scale / largest * unit))


# ---------------------------------------------------------------- functions


class FunctionDraw(NamedTuple):
    """One function per trial.

    Attributes:
        values: Values on all arms, `trials x M`.
        squared_norm: Squared norm of each function in the kernel's function space, shape `trials`;
            None if unknown.
        weights: Weights a of f = Σ_m a_m k(·, x_m), `trials x M`; None if unknown.
    """

    values: Tensor
    squared_norm: Tensor | None = None
    weights: Tensor | None = None


class FunctionDistribution(ABC):
    """A distribution over functions on the arms of a domain."""

    fresh: bool = True
    """Whether two draws of a function in the same trial differ."""

    def __repr__(self) -> str:
        return arguments_shown(self)

    @abstractmethod
    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        """Draw a function for every trial of the stream.

        Args:
            domain: The arms.
            stream: Random numbers for the trials; ``stream.dtype`` and ``stream.device`` also apply
                to the result.
        """


class GaussianDraw(FunctionDistribution):
    """A draw from the kernel's Gaussian process, N(0, K) on the arms.

    The draw is C z, where C is a pivoted Cholesky factor of the kernel matrix, K = C Cᵀ, and z is
    standard normal. The draw lies outside the kernel's function space, so it has no norm in this
    space.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
    """

    def __init__(self, kernel: Kernel | Tensor) -> None:
        self.kernel = copy.deepcopy(kernel)
        # The cache of a grid would hash a covariance matrix in every call.
        self._bases: dict[tuple[object, ...], Basis] = {}

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        basis = self.basis(domain, stream.dtype, stream.device)
        return FunctionDraw(basis.expand(self.coordinates(basis, stream)))

    def basis(self, domain: Grid, dtype: torch.dtype, device: torch.device) -> FeatureBasis:
        """The features Φ of the kernel on the arms, with kernel matrix K = Φ Φᵀ.

        Args:
            domain: The arms.
            dtype: Type of the features.
            device: Device of the features.
        """
        at = domain, dtype, device
        if at not in self._bases:
            self._bases[at] = domain.basis(self.kernel, "features", dtype=dtype, device=device)
        basis = self._bases[at]
        assert isinstance(basis, FeatureBasis)
        return basis

    @staticmethod
    def coordinates(basis: FeatureBasis, stream: Stream) -> Tensor:
        """The coordinates of a draw with respect to the features, `trials x r`.

        Args:
            basis: The r features.
            stream: Random numbers of the trials.
        """
        normal = stream.leading_normals(basis.normals, basis.arms)
        return basis.draw_from_prior(normal.to(basis.variance.dtype))


class SmoothedDraw(GaussianDraw):
    """The posterior mean fitted to a draw from the Gaussian process, [C17] §6.

    The draw on the arms is g ~ N(0, K), and the posterior mean is f = K a, where a = (K + λ I)⁻¹ g.
    The squared norm of f is aᵀ K a. :class:`GaussianDraw` draws g from the same random numbers, so
    f and g can be compared.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        noise: Noise variance λ that the posterior mean assumes, positive.

    Raises:
        ValueError: If ``noise`` is not positive and finite.
    """

    def __init__(self, kernel: Kernel | Tensor, noise: float) -> None:
        super().__init__(kernel)
        fix = "use GaussianDraw for draws without smoothing."
        self.noise = require_number("SmoothedDraw: noise", noise, "(0, inf)", fix)

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        # For most kernels K is numerically singular. With features Φ, K = Φ Φᵀ, only Φᵀ Φ + λ I is
        # inverted: f = Φ w with w = (Φᵀ Φ + λ I)⁻¹ Φᵀ g, and aᵀ K a = |Φᵀ a|² = |w|².
        basis = self.basis(domain, torch.float64, stream.device)
        eye = torch.eye(basis.size, dtype=torch.float64, device=stream.device)
        features = basis.expand(eye).mT
        gram = features.mT @ features
        z = self.coordinates(basis, stream)
        w = torch.linalg.solve(gram + self.noise * eye, (z @ gram).mT).mT
        drawn = FunctionDraw(
            values=w @ features.mT,
            squared_norm=w.square().sum(-1),
            weights=(z - w) @ features.mT / self.noise,  # a = (g - K a) / λ
        )
        return FunctionDraw(*(tensor.to(stream.dtype) for tensor in drawn if tensor is not None))


class RKHSFunctions(FunctionDistribution):
    """f = Σ_i α_i k(·, x_i), α_i uniform on [-1, 1] and x_i among the arms, [W22] §7.

    Here every x_i is drawn uniformly from all arms, with repetition; [W22] only states that the x_i
    are arms.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        terms: Number of terms, at least 1; [W22] uses 20, and 100 in the appendix.

    Raises:
        ValueError: If ``terms`` is not an integer of at least 1.
    """

    def __init__(self, kernel: Kernel | Tensor, terms: int = 20) -> None:
        self.kernel = copy.deepcopy(kernel)
        self.terms = require_integer("RKHSFunctions: terms", terms, 1, "the paper uses 20 and 100.")

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        basis = domain.basis(self.kernel, dtype=stream.dtype, device=stream.device)
        # In float32 the product of the number of arms and a number just below 1 may round up to the
        # number of arms.
        arms = (stream.uniform(self.terms) * basis.arms).long().clamp_max(basis.arms - 1)
        alpha = 2 * stream.uniform(self.terms) - 1
        weights = alpha.new_zeros(stream.trials, basis.arms).scatter_add_(-1, arms, alpha)
        values = basis.mixture(arms, alpha)
        return FunctionDraw(values, (values * weights).sum(-1), weights)


class FixedFunctions(FunctionDistribution):
    """User-defined functions, which are the same in every study.

    Args:
        values: Values on the arms. Shape `M` means that all trials have the same function; shape
            `trials x M` means that each trial has its own function.
    """

    fresh = False

    def __init__(self, values: Tensor) -> None:
        self.values = values.detach().clone()

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        values = self.values.to(stream.device, stream.dtype)
        if values.dim() == 1:
            return FunctionDraw(values.expand(stream.trials, -1))
        return FunctionDraw(values[stream.first : stream.first + stream.trials])
