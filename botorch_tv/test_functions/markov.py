"""Functions drawn from a Gaussian process by random features; they drift by the Markov model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.test_functions.search import candidates, maximize, waves
from botorch_tv.validation import require, require_integer, require_number


def frequencies_of(
    lengthscale: Tensor, smoothness: float, shape: Sequence[int], generator: torch.Generator
) -> Tensor:
    """Angular frequencies drawn from a kernel's spectral density, `shape x d`, float64.

    By Bochner's theorem, k(x, x') / k(x, x) = E cos(ωᵀ(x − x')). Let g be a normal vector with
    standard deviation 1 / lengthscale. For the squared exponential kernel, ω is g. For a Matérn
    kernel, ω is g / √(χ²_{2ν} / 2ν), so ω has Student's t distribution with 2ν degrees of freedom.

    Args:
        lengthscale: Lengthscale of each coordinate, `d`.
        smoothness: The smoothness ν of a Matérn kernel; infinite for the squared exponential
            kernel.
        shape: Shape of the result, without its last dimension of size d.
        generator: Source of the random numbers.
    """
    normal = partial(torch.randn, generator=generator, dtype=torch.float64, device="cpu")
    frequency: Tensor = normal(*shape, len(lengthscale))
    if math.isfinite(smoothness):
        # The supported values of 2ν are integers, so χ² is a sum of 2ν squares.
        frequency /= normal(*shape, round(2 * smoothness)).square().mean(-1, keepdim=True).sqrt()
    return frequency / lengthscale


def spectrum_of(kernel: Kernel, dim: int) -> tuple[float, Tensor, float]:
    """Variance, lengthscales `d` and smoothness ν of a kernel; ν is infinite for an RBF kernel.

    Args:
        kernel: ``RBFKernel``, or ``MaternKernel`` with ν = 1.5 or 2.5, on all coordinates, with 1
            or d lengthscales, possibly inside a ``ScaleKernel``.
        dim: The number d of coordinates.

    Raises:
        InputDataError: If ``kernel`` is not a supported kernel.
    """
    variance, inner = 1.0, kernel
    if isinstance(kernel, ScaleKernel) and kernel.outputscale.numel() == 1:
        variance, inner = kernel.outputscale.item(), kernel.base_kernel
    supported = type(inner) is RBFKernel or (type(inner) is MaternKernel and inner.nu > 1)
    if not supported or inner.active_dims is not None or len(inner.batch_shape) > 0:
        raise InputDataError(
            f"kernel is {kernel}, but random features need an RBFKernel or a MaternKernel of nu "
            "1.5 or 2.5 on all coordinates, without batch shape, possibly in a ScaleKernel. For "
            "other kernels draw on a grid with botorch_tv.simulation.MarkovWorld."
        )
    lengthscale = inner.lengthscale.detach().double().flatten().cpu()
    smoothness = inner.nu if isinstance(inner, MaternKernel) else math.inf
    return variance, lengthscale.expand(dim).clone(), smoothness


_BLOCK = 16
"""Number of rounds whose optima are searched together; the features of candidates are then computed
once."""


class MarkovFunction(TimeVaryingTestFunction):
    """A function drawn from a Gaussian process; it drifts by the Markov model, [B16] §2.

    f_t(x) = √(k(x, x) / F) Σ_i a_i(t) cos ω_iᵀx + b_i(t) sin ω_iᵀx, a sum over F frequencies ω_i,
    drawn from the spectral density of the kernel k. Each weight w, an a_i or a b_i, starts as a
    standard normal variate and changes by w_{t+1} = √(1 − ε) w_t + √ε g, where g is standard
    normal. Averaged over frequencies and weights, f has exactly the covariance k(x, x') (1 − ε)^{|t
    − t'| / 2}. For a given set of frequencies, the covariance deviates from k by about k(x, x) /
    √(2F). In each round of ``changes``, all weights are drawn anew; with ε = 0 the function is
    constant in time between these rounds. Values are rewards: they are maximised unless
    ``negate=True``.

    Time is a whole number, 0, ..., ``horizon``, because weights of features are drawn only for
    rounds. BoTorch treats time as an integer column of X, and raises an error for a time that is
    not a whole number. Weights take 16 F (horizon + 1) bytes per function, and an evaluation takes
    about 32 F bytes per point.

    The optimum of a round is searched on a grid with six points per lengthscale, or on 65,536 Sobol
    points if the grid would have more points. Gradient-based ascents then start from the best 32
    points. The error of a found maximum is about 1e-12, but for short lengthscales in many
    dimensions the maximum may be only local. In an experiment, the search was repeated with twice
    as many points for 16 functions on the unit cube in 6 dimensions. The repeated search found a
    higher maximum for one function with lengthscale 0.3 (higher by 0.09) and for two functions with
    lengthscale 0.2 (higher by up to 0.26). In up to 4 dimensions, with lengthscales of at least
    0.1, the repeated search found no higher maximum. The optima of 16 rounds are searched together
    and then cached.

    Args:
        kernel: The kernel k: ``RBFKernel`` or ``MaternKernel`` (ν = 1.5 or 2.5), possibly in a
            ``ScaleKernel``.
        epsilon: Rate of change ε of the function per round, in [0, 1].
        dim: The number d of coordinates, 1 to 6.
        bounds: Bounds of the coordinates; [0, 1] each by default.
        changes: Rounds in which all weights are drawn anew.
        horizon: The last round.
        batch_shape: Batch shape of independent functions, for example one function for each of
            several simultaneous optimisation runs. If there are several functions, X is
            `batch_shape x n x (d + 1)`, or broadcasts to this shape.
        features: The number F of frequencies.
        seed: Seed of the draw.
        noise_std: Standard deviation of the observation noise; None for no noise.
        negate: Whether to reverse the sign of the function, for minimisation.

    Raises:
        ValueError: If a parameter is out of range.
        InputDataError: If ``kernel`` is not a supported kernel.
    """

    _is_minimization_by_default = False
    _frequencies: Tensor
    _weights: Tensor

    def __init__(
        self,
        kernel: Kernel,
        *,
        epsilon: float,
        dim: int = 2,
        bounds: Sequence[tuple[float, float]] | None = None,
        changes: Sequence[int] = (),
        horizon: int = 200,
        batch_shape: Sequence[int] = (),
        features: int = 512,
        seed: int = 0,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        name = "MarkovFunction"
        dim = require_integer(f"{name}: dim", dim, 1, "give at most 6.")
        require(
            dim <= 6,
            f"{name}: dim is {dim}; give at most 6, because in more dimensions a search may miss "
            "the optimum.",
        )
        fix = "0 is a static function."
        epsilon = require_number(f"{name}: epsilon", epsilon, "[0, 1]", fix)
        horizon = require_integer(f"{name}: horizon", horizon, 1, "time is counted in rounds.")
        features = require_integer(f"{name}: features", features, 1, "512 is the usual number.")
        require(
            all(change % 1 == 0 and 0 < change <= horizon for change in changes),
            f"{name}: changes is {changes}; give whole rounds from 1 to {horizon}.",
        )
        box = [(0.0, 1.0)] * dim if bounds is None else list(bounds)
        require(len(box) == dim, f"{name}: bounds has {len(box)} pairs, but dim is {dim}.")
        variance, self._lengthscale, smoothness = spectrum_of(kernel, dim)
        self.discrete_inds = [dim]
        self.continuous_inds = list(range(dim))
        super().__init__(box, horizon=horizon, noise_std=noise_std, negate=negate)
        self.batch_shape = torch.Size(batch_shape)
        self.epsilon = epsilon
        self.changes = tuple(int(change) for change in changes)
        generator = torch.Generator().manual_seed(seed)
        shape = (*self.batch_shape, features)
        drawn = frequencies_of(self._lengthscale, smoothness, shape, generator)
        self.register_buffer("_frequencies", drawn)
        scale = math.sqrt(variance / features)
        self.register_buffer("_weights", self._chain(2 * features, generator).mul_(scale))
        self._forget_optima()

    def optimizers_at(self, t: float) -> Tensor:
        rounds = self._rounds(self._times(t)).expand(self.batch_shape)
        self._solve(rounds)
        numbers = rounds.reshape(*self.batch_shape, 1, 1)
        return torch.take_along_dim(self._places, numbers, dim=-2).to(self.bounds)

    def _chain(self, size: int, generator: torch.Generator) -> Tensor:
        """Weights of the features in all rounds, `batch_shape x (horizon + 1) x 2F`."""
        shape = (*self.batch_shape, size)
        weights = [
            torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
            for _ in range(int(self.horizon) + 1)
        ]
        for t in range(1, len(weights)):
            epsilon = 1.0 if t in self.changes else self.epsilon
            weights[t] = math.sqrt(1 - epsilon) * weights[t - 1] + math.sqrt(epsilon) * weights[t]
        return torch.stack(weights, dim=-2)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        rounds = self._rounds(X[..., -1])
        frequencies, weights = self._frequencies.to(X), self._weights.to(X)
        if not self.batch_shape:
            return (waves(X[..., :-1], frequencies) * weights[rounds]).sum(-1)
        shape = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        rounds = rounds.expand(*shape, X.shape[-2]).unsqueeze(-1)
        own = torch.take_along_dim(weights.expand(*shape, *weights.shape[-2:]), rounds, dim=-2)
        return (waves(X[..., :-1], frequencies) * own).sum(-1)

    def _best_at(self, t: Tensor) -> Tensor:
        if t.dim() == 0:
            return self._best_at(t.unsqueeze(0)).squeeze(-1)
        shape = torch.broadcast_shapes(t.shape[:-1], self.batch_shape)  # type: ignore[no-untyped-call]
        rounds = self._rounds(t).expand(*shape, t.shape[-1])
        self._solve(rounds.movedim(-1, 0).reshape(-1, *self.batch_shape).movedim(0, -1))
        best = torch.take_along_dim(self._values.expand(*shape, -1), rounds, dim=-1)
        return best.to(t.dtype)

    def _rounds(self, t: Tensor) -> Tensor:
        rounds = t.detach().round()
        require(
            bool((rounds == t).all()),
            f"MarkovFunction: time is {t[rounds != t].flatten()[:1].tolist()}; give whole rounds, "
            "because the function is defined only for these.",
        )
        return rounds.long()

    def _solve(self, rounds: Tensor) -> None:
        """Find and cache the optima of some rounds, with shapes `batch_shape x ...`."""
        size, dim = self._weights.shape[-2], self.spatial_dim
        functions = math.prod(self.batch_shape)
        values = self._values.reshape(functions, size)
        places = self._places.reshape(functions, size, dim)
        asked = rounds.reshape(functions, -1)
        unknown = values.gather(1, asked).isnan()
        if not bool(unknown.any()):
            return
        weights = self._weights.double().reshape(functions, size, -1)
        frequencies = self._frequencies.double().reshape(functions, -1, dim)
        box = self.spatial_bounds.double()
        points = candidates(box, self._lengthscale.to(box))
        for i in range(functions):
            for block in sorted(set((asked[i][unknown[i]] // _BLOCK).tolist())):
                some = slice(block * _BLOCK, (block + 1) * _BLOCK)
                place, best = maximize(weights[i, some], frequencies[i], box, points)
                values[i, some], places[i, some] = best, place

    def _forget_optima(self) -> None:
        retained = self._weights.new_full(self._weights.shape[:-1], math.nan, dtype=torch.float64)
        self._values = retained
        self._places = retained.unsqueeze(-1).repeat_interleave(self.spatial_dim, dim=-1)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> MarkovFunction:
        before = self._weights
        super()._apply(fn, recurse)
        # The cached optima are dropped, because rounding the weights to another dtype changes the
        # optima.
        if self._weights is not before:
            self._forget_optima()
        return self
