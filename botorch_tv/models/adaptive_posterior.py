"""The posterior of a mixture of processes for BoTorch: its moments, and functions drawn from it.

Importing this registers a sampler with BoTorch's ``get_sampler``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import Posterior
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import NormalMCSampler
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Size, Tensor

from botorch_tv.inference.mixture.forecast import Forecast, Places


@dataclass(frozen=True, eq=False)
class AdaptivePosterior(Posterior):  # type: ignore[misc]
    """The mixture at q points jointly, which is no Gaussian.

    Mean, variance and covariance are those of the mixture. A sample is a function of a member that
    is drawn first; sets of points that share random numbers are on one function, which follows
    points smoothly. What features leave out of a function, and noise, is drawn for every point.

    Attributes:
        drawing: The mixture after its measurements.
        places: The points, N sets of q for each of T trials.
        own_noise: Whether the noise of an observation is added, each member's own.
        added: Variance besides, in units of y, `T x N x q`; None for none.
        lead: Dimensions of the sets, N in all.
        trials: `batch_shape` of the model, T in all.
        centre: Added to what is in units of the starts, `T`.
        unit: By which that is multiplied before, `T`.
    """

    drawing: Forecast
    places: Places
    own_noise: bool
    added: Tensor | None
    lead: Size
    trials: Size
    centre: Tensor
    unit: Tensor

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self.unit.device

    @property
    def dtype(self) -> torch.dtype:
        """Always float64."""
        return self.unit.dtype

    @property
    def batch_shape(self) -> Size:
        """`lead x batch_shape`."""
        return Size((*self.lead, *self.trials))

    @cached_property
    def mean(self) -> Tensor:
        """`lead x batch_shape x q x 1`."""
        value = self.drawing.mean(self.places)
        return self._shaped(value * self.unit[:, None, None] + self.centre[:, None, None])

    @cached_property
    def variance(self) -> Tensor:
        """`lead x batch_shape x q x 1`."""
        value = self.drawing.variance(self.places).clamp_min(0)
        return self._shaped(value * self.unit[:, None, None].square() + self._noise)

    @cached_property
    def covariance_matrix(self) -> Tensor:
        """Among the points of every set, `lead x batch_shape x q x q`."""
        value = self.drawing.covariance(self.places) * self.unit.view(-1, 1, 1, 1).square()
        value = value + torch.diag_embed(self._noise.expand(value.shape[:-1]))
        return value.transpose(0, 1).reshape(*self.batch_shape, *value.shape[-2:])

    def rsample(self, sample_shape: Size | None = None) -> Tensor:
        """Values of functions, the same for all sets of points, `sample_shape x lead x ... x 1`.

        Args:
            sample_shape: How many; one unless given.

        Raises:
            InputDataError: If the points of a set do not share their time.
        """
        shape = Size([1]) if sample_shape is None else sample_shape
        ones = [1] * len(self.lead)
        base = torch.randn(
            *(*shape, *ones, *self.trials, self._width), dtype=self.dtype, device=self.device
        )
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: Size, base_samples: Tensor) -> Tensor:
        """Values of the functions that standard normal variates make.

        Args:
            sample_shape: How many.
            base_samples: `sample_shape x base_sample_shape`, dimensions of which may be 1.

        Raises:
            InputDataError: If the points of a set do not share their time.
        """
        gap = self.places.gap
        if bool((gap != gap[..., :1]).any()):
            raise InputDataError(
                "points that are sampled jointly share their time, but there are several in a "
                "batch; hold time by at_present or fixed_features. Mean, variance and covariance "
                "are of any times."
            )
        T, _, q = gap.shape
        normal = self._by_trial(base_samples, sample_shape)
        functions = self.drawing.functions(normal[..., :-q])
        variance = functions.unexplained(self.places)
        if self.own_noise:
            variance = variance + (functions.ratio * functions.scale).unsqueeze(-2)
        if self.added is not None:
            variance = variance + (self.added / self.unit[:, None, None].square()).unsqueeze(-1)
        own = variance.clamp_min(torch.finfo(self.dtype).tiny).sqrt() * normal[..., -q:].mT
        value = functions.at(self.drawing, self.places) + own
        value = value * self.unit.view(T, 1, 1, 1) + self.centre.view(T, 1, 1, 1)
        return value.permute(3, 1, 0, 2).reshape(*sample_shape, *self.batch_shape, q, 1)

    @property
    def base_sample_shape(self) -> Size:
        """Variates of a function and, behind them, one for every point."""
        return Size((*self.batch_shape, self._width))

    @property
    def batch_range(self) -> tuple[int, int]:
        """All dimensions but the last."""
        return 0, -1

    def scaled(self, factor: float, offset: float) -> AdaptivePosterior:
        """The posterior of ``factor`` f + ``offset``."""
        added = None if self.added is None else self.added * factor**2
        centre = self.centre * factor + offset
        return replace(self, added=added, centre=centre, unit=self.unit * factor)

    def _extended_shape(self, sample_shape: Size = Size()) -> Size:  # noqa: B008
        return Size((*sample_shape, *self.batch_shape, self.places.gap.shape[-1], 1))

    @property
    def _width(self) -> int:
        return self.drawing.normals + self.places.gap.shape[-1]

    @property
    def _noise(self) -> Tensor:
        """Variance of what is observed besides f, `T x 1 x 1` or `T x N x q`."""
        noise = self.drawing.believed_noise() * self.unit.square() * self.own_noise
        whole = noise[:, None, None]
        return whole if self.added is None else whole + self.added

    def _by_trial(self, base: Tensor, sample_shape: Size) -> Tensor:
        """Base samples as `T x N' x M x width`, N' being 1 where all sets share them."""
        first, sets = len(sample_shape), len(self.lead)
        for dim in range(first, first + sets):
            if base.stride(dim) == 0:
                base = base.narrow(dim, 0, 1)
        shared = all(size == 1 for size in base.shape[first : first + sets])
        lead = Size([1] * sets) if shared else self.lead
        whole = base.expand(*sample_shape, *lead, *self.trials, self._width)
        flat = whole.reshape(sample_shape.numel(), lead.numel(), len(self.unit), self._width)
        return flat.permute(2, 1, 0, 3)

    def _shaped(self, value: Tensor) -> Tensor:
        """`T x N x q -> lead x batch_shape x q x 1`."""
        return value.transpose(0, 1).reshape(*self.batch_shape, value.shape[-1], 1)


class AdaptiveSampler(NormalMCSampler):  # type: ignore[misc]
    """Samples of an :class:`AdaptivePosterior`, of the same functions whatever points are asked.

    Functions come from a Sobol sequence; what is drawn for every point stays that of the first
    points when there are more. The sequence is shuffled: those of two seeds are correlated row by
    row, and so would be the outputs of a list of models.
    """

    def _construct_base_samples(self, posterior: AdaptivePosterior) -> None:
        shape = self._get_collapsed_shape(posterior)
        if self.base_samples is None or self.base_samples.shape != shape:
            count, common = self.sample_shape.numel(), posterior.drawing.normals
            functions = draw_sobol_normal_samples(
                common, count, posterior.device, posterior.dtype, seed=self.seed
            )
            generator = torch.Generator().manual_seed(self.seed)
            order = torch.randperm(count, generator=generator, device="cpu")
            functions = functions[order.to(functions.device)]
            points = torch.randn(
                shape[-1] - common, count, dtype=posterior.dtype, generator=generator, device="cpu"
            )
            both = torch.cat([functions, points.T.to(functions)], -1)
            self.register_buffer("base_samples", both.view(shape))


@GetSampler.register(AdaptivePosterior)  # type: ignore[untyped-decorator]
def _get_sampler(
    posterior: AdaptivePosterior, sample_shape: Size, *, seed: int | None = None
) -> AdaptiveSampler:
    return AdaptiveSampler(sample_shape, seed=seed)
