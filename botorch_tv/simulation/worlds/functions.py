"""Distributions of the fixed functions that worlds are made of.

A distribution draws one function per trial. It is independent of domain and world, so any world can
use any distribution: for instance, an abrupt change between draws from a Gaussian process, or
between user-defined functions.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.inference.basis import Basis, FeatureBasis
from botorch_tv.inference.covariance import Inference
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import arguments_shown
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require_integer, require_number


class FunctionDraw(NamedTuple):
    """One function per trial.

    Attributes:
        values: On all arms, `trials x M`.
        squared_norm: Squared norm in the kernel's function space, `trials`; None where unknown.
        weights: a of f = Σ_m a_m k(·, x_m), `trials x M`; None where unknown.
    """

    values: Tensor
    squared_norm: Tensor | None = None
    weights: Tensor | None = None


class FunctionDistribution(ABC):
    """A distribution over functions on the arms of a domain."""

    fresh: bool = True
    """Whether two draws in one trial differ."""

    def __repr__(self) -> str:
        return arguments_shown(self)

    @abstractmethod
    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        """One function for every trial of the stream.

        Args:
            domain: The arms.
            stream: Random numbers of the trials, with their dtype and device.
        """


class _KernelFunctions(FunctionDistribution):
    """Functions drawn by a kernel, which is factored once per domain.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
    """

    def __init__(self, kernel: Kernel | Tensor) -> None:
        self.kernel = copy.deepcopy(kernel)
        self._bases: dict[tuple[Grid, Inference, torch.dtype, torch.device], Basis] = {}

    def _factored(
        self, domain: Grid, inference: Inference, dtype: torch.dtype, device: torch.device
    ) -> Basis:
        key = (domain, inference, dtype, device)
        if key not in self._bases:
            self._bases[key] = domain.basis(self.kernel, inference, dtype=dtype, device=device)
        return self._bases[key]


class GaussianDraw(_KernelFunctions):
    """A draw from the kernel's Gaussian process, N(0, K) on the arms.

    With a pivoted Cholesky factor of the kernel, K = C Cᵀ, the draw is C z with z standard normal.
    Such a function lies outside the kernel's function space, so it has no norm there.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
    """

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        basis = self.basis(domain, stream.dtype, stream.device)
        return FunctionDraw(basis.expand(self.coordinates(basis, stream)))

    def basis(self, domain: Grid, dtype: torch.dtype, device: torch.device) -> FeatureBasis:
        """Features of the kernel over the arms."""
        basis = self._factored(domain, "features", dtype, device)
        assert isinstance(basis, FeatureBasis)
        return basis

    @staticmethod
    def coordinates(basis: FeatureBasis, stream: Stream) -> Tensor:
        """A draw in coordinates of the features, `trials x r`."""
        normal = stream.leading_normals(basis.normals, basis.arms)
        return basis.draw_from_prior(normal.to(basis.variance.dtype))

    @staticmethod
    def coordinates_ahead(basis: FeatureBasis, stream: Stream) -> Tensor:
        """Some further draws in coordinates of the features, `trials x draws x r`."""
        normals = stream.leading_normals_ahead(basis.normals, basis.arms)
        return basis.draw_from_prior(normals.to(basis.variance.dtype))


class SmoothedDraw(GaussianDraw):
    """The posterior mean fitted to a draw from the Gaussian process, [C17] §6.

    With g ~ N(0, K) on the arms, f = K a with a = (K + λ I)⁻¹ g, and the squared norm is aᵀ K a.
    From the same stream :class:`GaussianDraw` draws g itself, so the two can be compared.

    Args:
        kernel: As in :class:`GaussianDraw`.
        noise: Variance λ assumed in the fit, positive.

    Raises:
        ValueError: If ``noise`` is not positive and finite.
    """

    def __init__(self, kernel: Kernel | Tensor, noise: float) -> None:
        super().__init__(kernel)
        noise = require_number(
            "SmoothedDraw: noise", noise, "(0, inf)", "GaussianDraw does not smooth."
        )
        self.noise = noise

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        # K is numerically singular for most kernels. In features only Φᵀ Φ + λ I is inverted:
        # f = Φ w with w = (Φᵀ Φ + λ I)⁻¹ Φᵀ g, and aᵀ K a = |Φᵀ a|² = |w|².
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


class RKHSFunctions(_KernelFunctions):
    """f = Σ_i α_i k(·, x_i), α_i uniform on [-1, 1] and x_i among the arms, [W22] §7.

    The paper only says that the x_i are arms; here they are uniform and may repeat.

    Args:
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        terms: Number of terms, at least 1; 20 in the paper, 100 in its appendix.

    Raises:
        ValueError: If ``terms`` is no integer of at least 1.
    """

    def __init__(self, kernel: Kernel | Tensor, terms: int = 20) -> None:
        terms = require_integer("RKHSFunctions: terms", terms, 1, "the paper uses 20 and 100.")
        super().__init__(kernel)
        self.terms = terms

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        basis = self._factored(domain, "auto", stream.dtype, stream.device)
        # In float32 the product with a number just below 1 may be rounded up.
        arms = (stream.uniform(self.terms) * basis.arms).long().clamp_max(basis.arms - 1)
        alpha = 2 * stream.uniform(self.terms) - 1
        weights = alpha.new_zeros(stream.trials, basis.arms).scatter_add_(-1, arms, alpha)
        values = basis.mixture(arms, alpha)
        return FunctionDraw(values, (values * weights).sum(-1), weights)


class FixedFunctions(FunctionDistribution):
    """User-defined functions, the same in every study.

    Args:
        values: One function for all trials, `M`, or one for each trial of a study, `trials x M`.

    Raises:
        InputDataError: If ``values`` is not a floating-point tensor of such a shape.
    """

    fresh = False

    def __init__(self, values: Tensor) -> None:
        if values.dim() not in (1, 2) or not values.is_floating_point() or values.isnan().any():
            raise InputDataError(
                f"FixedFunctions: values is {values.dtype} of shape {tuple(values.shape)}, perhaps "
                "with NaN; give floating-point numbers, values.double(), of shape M or trials x M."
            )
        self.values = values.detach().clone()

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        values, last = self.values.to(stream.device, stream.dtype), stream.first + stream.trials
        if values.shape[-1] != len(domain) or (values.dim() == 2 and last > len(values)):
            raise InputDataError(
                f"FixedFunctions: values has shape {tuple(values.shape)}, but the domain has "
                f"{len(domain)} arms and the study needs trial number {last}; give shape M, or "
                "trials x M, in the order of domain.X."
            )
        if values.dim() == 1:
            return FunctionDraw(values.expand(stream.trials, -1))
        return FunctionDraw(values[stream.first : last])
