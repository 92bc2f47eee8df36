"""A BoTorch model that needs no prior knowledge: a bank of processes, weighted by likelihood.

Importing this module registers a sampler with BoTorch's ``get_sampler``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Self

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import Model
from botorch.posteriors import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import NormalMCSampler
from botorch.utils.sampling import draw_sobol_normal_samples
from torch import Size, Tensor

from botorch_tv.gp.mixture.bank import (
    FIRST,
    MOST_COLUMNS,
    Bank,
    BankPrior,
    prior_on_box,
)
from botorch_tv.gp.mixture.filter import advanced, blocks
from botorch_tv.gp.mixture.forecast import Forecast
from botorch_tv.gp.mixture.running import RunningMixture, mixture_prior
from botorch_tv.gp.mixture.units import Measured, units_after
from botorch_tv.kernels.declared import like
from botorch_tv.models.training_data import (
    check_data,
    check_inputs,
    check_now,
    check_rows,
    column_of_time,
    warn_of_no_time,
)
from botorch_tv.validation import require


class AdaptivePosterior(Posterior):  # type: ignore[misc]
    """The joint posterior of a mixture at q points, multiplied by a factor and shifted.

    The posterior is not Gaussian. The posterior has the mean, the variance and the covariance of
    the mixture. To draw a sample, first a member of the bank is drawn, and then a function from the
    posterior of this member. Sets of points that share base samples are evaluated on the same
    smooth function. The observation noise is drawn independently for every point.

    Args:
        drawing: The mixture, conditioned on its measurements.
        points: N sets of q points for each of T trials, without time, `T x N x q x (d - 1)`.
        time: Times of the points, `T x N x q`.
        batch_shape: Batch dimensions of the N sets of points, followed by those of the T trials.
        sets: Number of leading dimensions of ``batch_shape`` that index the N sets of points.
        own_noise: Whether to add each member's observation noise.
        added: Additional variance in units of y, `T x N x q`; None to add nothing.
        factor: Factor by which the objective is multiplied.
        offset: Constant that is added after the multiplication by ``factor``.
    """

    def __init__(
        self,
        drawing: Forecast,
        points: Tensor,
        time: Tensor,
        batch_shape: Size,
        sets: int,
        own_noise: bool,
        added: Tensor | None,
        factor: float = 1.0,
        offset: float = 0.0,
    ) -> None:
        self.drawing, self.places = drawing, drawing.places(points, time)
        self._shape, self._sets, self._own_noise = batch_shape, sets, own_noise
        self._width, self._gap = drawing.normals + time.shape[-1], self.places.gap
        self._added = None if added is None else added * factor**2
        units = drawing.running.units
        self._centre, self._unit = units.centre * factor + offset, units.spread * factor

    @property
    def device(self) -> torch.device:
        """Device of all tensors."""
        return self._unit.device

    @property
    def dtype(self) -> torch.dtype:
        """Type of all tensors: always float64."""
        return self._unit.dtype

    @property
    def batch_shape(self) -> Size:
        """Batch shape of the points and of the model."""
        return self._shape

    @cached_property
    def mean(self) -> Tensor:
        """Posterior mean, `batch_shape x q x 1`."""
        value = self.drawing.mean(self.places) * self._unit[:, None, None]
        return self._shaped((value + self._centre[:, None, None]).unsqueeze(-1))

    @cached_property
    def variance(self) -> Tensor:
        """Posterior variance, `batch_shape x q x 1`."""
        value = self.drawing.variance(self.places).clamp_min(0)
        value = value * self._unit[:, None, None].square() + self._noise
        return self._shaped(value.unsqueeze(-1))

    @cached_property
    def covariance_matrix(self) -> Tensor:
        """Posterior covariance within each set of points, `batch_shape x q x q`."""
        value = self.drawing.covariance(self.places) * self._unit.view(-1, 1, 1, 1).square()
        return self._shaped(value + torch.diag_embed(self._noise.expand(value.shape[:-1])))

    def rsample(self, sample_shape: Size | None = None) -> Tensor:
        """Draw functions and evaluate them at all sets of points, `sample_shape x ... x q x 1`.

        Args:
            sample_shape: Number of functions; a single function by default.

        Raises:
            InputDataError: If the points of a set have different times.
        """
        shape = Size([1]) if sample_shape is None else sample_shape
        trials = self._shape[self._sets :]
        every = (*shape, *[1] * self._sets, *trials, self._width)
        base = torch.randn(*every, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: Size, base_samples: Tensor) -> Tensor:
        """Evaluate functions that are determined by standard normal variates.

        Args:
            sample_shape: Number of functions.
            base_samples: Normal variates, `sample_shape x base_sample_shape`; dimensions of size 1
                are expanded.

        Raises:
            InputDataError: If the points of a set have different times.
        """
        gap, normal = self._gap, self._by_trial(base_samples, sample_shape)
        if bool((gap != gap[..., :1]).any()):
            raise InputDataError(
                "points that are sampled jointly must share one time, but a batch has several; fix "
                "the time with at_present or fixed_features."
            )
        q = gap.shape[-1]
        value, variance = self.drawing.functions(
            normal[..., :-q], self.places, noise=self._own_noise
        )
        if self._added is not None:
            variance = variance + (self._added / self._unit[:, None, None].square()).unsqueeze(-1)
        own = variance.clamp_min(torch.finfo(self.dtype).tiny).sqrt() * normal[..., -q:].mT
        unit, centre = self._unit.view(-1, 1, 1, 1), self._centre.view(-1, 1, 1, 1)
        value = (value + own) * unit + centre
        return value.permute(3, 1, 0, 2).reshape(*sample_shape, *self._shape, q, 1)

    @property
    def base_sample_shape(self) -> Size:
        """Shape of base samples: variates that determine a function, then one variate per point."""
        return Size((*self._shape, self._width))

    @property
    def batch_range(self) -> tuple[int, int]:
        """Range of the batch dimensions of base samples: all dimensions except the last."""
        return 0, -1

    def _extended_shape(self, sample_shape: Size = Size()) -> Size:  # noqa: B008
        return Size((*sample_shape, *self._shape, self._gap.shape[-1], 1))

    @property
    def _noise(self) -> Tensor:
        """Variance that is added to the variance of f, `T x 1 x 1` or `T x N x q`."""
        noise = self.drawing.model_noise() * self._unit.square() * self._own_noise
        whole = noise[:, None, None]
        return whole if self._added is None else whole + self._added

    def _by_trial(self, base: Tensor, sample_shape: Size) -> Tensor:
        """M base samples as `T x N' x M x width`; N' is 1 if all sets share them, else N."""
        first, last = len(sample_shape), len(sample_shape) + self._sets
        for dim in range(first, last):
            if base.stride(dim) == 0:
                base = base.narrow(dim, 0, 1)
        lead, trials = self._shape[: self._sets], self._shape[self._sets :]
        if all(size == 1 for size in base.shape[first:last]):
            lead = Size([1] * self._sets)
        whole = base.expand(*sample_shape, *lead, *trials, self._width)
        flat = whole.reshape(sample_shape.numel(), lead.numel(), len(self._unit), self._width)
        return flat.permute(2, 1, 0, 3)

    def _shaped(self, value: Tensor) -> Tensor:
        """Reshape a value from `T x N x *` to `batch_shape x *`."""
        return value.transpose(0, 1).reshape(*self._shape, *value.shape[2:])


class AdaptiveSampler(NormalMCSampler):  # type: ignore[misc]
    """Samples an :class:`AdaptivePosterior`; the drawn functions do not depend on the points.

    A Sobol sequence determines the drawn functions. If the number of points grows, the first points
    retain their variates. The Sobol sequence is shuffled, because Sobol sequences of different
    seeds are correlated row by row. If Sobol sequences were not shuffled, the samples of different
    models in a list of models would be correlated.
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


OUTSIDE = 1e-6
"""Largest fraction of a column's range by which measurements may lie outside its bounds."""
BEYOND = 0.25
"""Largest fraction of a column's range by which test points may lie outside its bounds.

To bound an objective from below, BoTorch evaluates points that lie outside the baseline's range by
up to a tenth of this range. Points further outside indicate wrong bounds or units.
"""
MOST_NUMBERS = 2**28
"""Maximum number of entries in all matrices together, 2 GiB. Each trial and each fantasy has one
matrix per history of the bank."""


def check_measurements(X: Tensor, Y: Tensor, time_dim: int, columns: int | None = None) -> None:
    """Raise unless ``X`` is `... x n x d` and ``Y`` is `... x n x 1`, both finite and in float64.

    Raises:
        BotorchTensorDimensionError: If shapes do not match.
        InputDataError: If a value is not finite, too large or not in float64.
    """
    check_data(X, Y, columns=columns, time_dim=time_dim)
    check_rows(X, Y, None, outputs=1)
    if X.dtype != torch.float64:
        raise InputDataError(
            f"X and Y are {X.dtype}, but sequential updates of covariances lose too many digits in "
            "this type; use torch.float64."
        )


def check_points(
    prior: BankPrior, points: Tensor, time: Tensor, newest: Tensor, beyond: float = OUTSIDE
) -> None:
    """Raise unless all points lie within the bounds and none lies before the newest observation.

    Args:
        prior: Prior of the bank.
        points: Points without time, `... x q x d`.
        time: Times of the points, `... x q`.
        newest: Time of the newest observation, broadcastable with ``time``.
        beyond: Fraction of the range by which points may lie outside the bounds.

    Raises:
        InputDataError: If a point lies outside the bounds, or before the newest observation.
    """
    U = (points.detach() - prior.lower) / (prior.upper - prior.lower)
    out, early = ~((U - 0.5).abs() <= 0.5 + beyond), ~(time.detach() >= newest)
    if bool(out.any()):
        raise InputDataError(
            f"a point has the value {points[out][0].item():g} in a column, but the bounds are "
            f"{prior.lower.tolist()} and {prior.upper.tolist()}; give bounds that contain all "
            "points."
        )
    if bool(early.any()):
        raise InputDataError(
            f"a point has time {time[early][0].item():g}, but the newest measurement was made at "
            f"{newest.expand_as(time)[early][0].item():g}; fix the present time with at_present or "
            "fixed_features, and build a new model for late measurements."
        )


def check_memory(prior: BankPrior, shape: Size, rows: int) -> None:
    """Raise an ``UnsupportedError`` if the matrices of all trials exceed the limit."""
    size = min(rows, prior.bank.points) + 1
    per_trial = len(prior.rate) * len(prior.lengthscales) * size**2
    if shape.numel() * per_trial > MOST_NUMBERS:
        raise UnsupportedError(
            f"{shape.numel()} trials or fantasies of {per_trial} numbers each exceed the limit of "
            f"{MOST_NUMBERS} numbers; use fewer trials, or a smaller bank such as "
            "Bank(points=32)."
        )


def learned(
    prior: BankPrior, running: RunningMixture, X: Tensor, Y: Tensor, time_dim: int
) -> RunningMixture:
    """The posterior given further observations, with all trials in one batch dimension.

    Args:
        prior: Prior of the bank.
        running: Posterior without the observations in ``Y``; its units of y and time must be set
            already.
        X: Inputs, `batch_shape x n x d`.
        Y: Observations, `batch_shape x n x 1`.
        time_dim: Index of the time column.
    """
    points, time = split(X.reshape(len(running.jumped), *X.shape[-2:]), time_dim)
    y, variance = Y.reshape(time.shape), torch.zeros_like(time)
    for rows in blocks(time, prior.bank.points):
        reading = points[:, rows], y[:, rows], time[:, rows.start], variance[:, rows]
        good = torch.ones_like(reading[-1], dtype=torch.bool)
        # Gradients need the earlier matrices.
        needed = X.requires_grad or running.matrices.requires_grad
        consume = rows.start > 0 and not needed
        running = advanced(prior, running, *reading, good, consume=consume)
    return running


def in_order(X: Tensor, Y: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """Rows sorted by time; rows of equal times retain their order."""
    order = X[..., time_dim].argsort(stable=True, dim=-1).unsqueeze(-1)
    return X.gather(-2, order.expand_as(X)), Y.gather(-2, order)


def split(X: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """Split inputs into the columns other than time, `... x (d - 1)`, and time, `...`."""
    points = torch.cat([X[..., :time_dim], X[..., time_dim + 1 :]], -1)
    return points, X[..., time_dim]


class AdaptiveModel(Model):  # type: ignore[misc]
    """The posterior of a bank of processes at the times in ``X``; see :func:`adaptive_model`.

    The model needs no fitting: a single pass over the data computes the weights and the posteriors
    of all members. The computing time per observation is bounded, see ``Bank.points``.

    Args:
        prior: Prior of the bank.
        running: Posterior given the training data, with all trials in one batch dimension.
        train_X: Training inputs in order of time, `batch_shape x n x d`.
        train_Y: Training targets, `batch_shape x n x 1`.
        time_dim: Index of the time column, counted from 0.
        now: Present time, `batch_shape`; None to follow the newest observation.

    Attributes:
        train_inputs: Training inputs in order of time, `(batch_shape x n x d,)`.
        train_targets: Training targets, `batch_shape x n`.
        time_dim: Index of the time column.
    """

    def __init__(
        self,
        prior: BankPrior,
        running: RunningMixture,
        train_X: Tensor,
        train_Y: Tensor,
        time_dim: int,
        now: Tensor | None,
    ) -> None:
        super().__init__()
        self.prior, self.running = prior, running
        self.train_inputs, self.train_targets = (train_X,), train_Y.squeeze(-1)
        self.time_dim, self._now = time_dim, now
        self._drawing = Forecast(prior, running)

    @property
    def num_outputs(self) -> int:
        """Number of outputs: always 1."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """The batch shape of the data."""
        return self.train_targets.shape[:-1]

    @property
    def newest(self) -> Tensor:
        """Time of the newest observation, `batch_shape`."""
        return self.running.now.time.view(self.batch_shape)

    @property
    def now(self) -> Tensor:
        """Present time, `batch_shape`: as given, or the time of the newest observation."""
        return self.newest if self._now is None else self._now

    @property
    def weights(self) -> Tensor:
        """Weights of members, `batch_shape x lengthscales x rates x hazards x noise ratios`."""
        share = self.running.member_weights(self.prior)
        return share.view(*self.batch_shape, *self.prior.sizes)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> AdaptivePosterior:
        """The posterior of the mixture at the points and times in ``X``.

        Points may lie outside the bounds by up to a quarter of the range; predictions there
        extrapolate.

        Args:
            X: Inputs, `... x batch_shape x q x d`; no time may be before the newest observation.
            output_indices: None or [0].
            observation_noise: True adds each member's noise variance, False adds nothing. A tensor,
                `... x q x 1`, is the variance to add for all members.
            posterior_transform: A ``ScalarizedPosteriorTransform``, or None.

        Raises:
            InputDataError: If a point lies before the newest observation, or outside the bounds by
                more than a quarter of the range.
            UnsupportedError: If ``posterior_transform`` is neither None nor a
                ``ScalarizedPosteriorTransform``.
        """
        require(
            output_indices in (None, [0]),
            f"output_indices is {output_indices}, but the model has one output; pass None.",
        )
        check_inputs(X, self.train_inputs[0].shape[-1])
        shape = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        lead = shape[: len(shape) - len(self.batch_shape)]

        def by_trial(value: Tensor) -> Tensor:
            wide = value.expand(*shape, *value.shape[-2:])
            by_set = wide.reshape(lead.numel(), self.batch_shape.numel(), *value.shape[-2:])
            return by_set.transpose(0, 1)

        points, time = split(by_trial(X), self.time_dim)
        check_points(self.prior, points, time, self.running.now.time[:, None, None], BEYOND)
        factor, offset, added = 1.0, 0.0, None
        if isinstance(observation_noise, Tensor):
            added = by_trial(observation_noise.expand(*shape, X.shape[-2], 1)).squeeze(-1)
        if posterior_transform is not None:
            if type(posterior_transform) is not ScalarizedPosteriorTransform:
                raise UnsupportedError(
                    f"posterior_transform is {posterior_transform!r}, but a mixture is not "
                    "Gaussian; use ScalarizedPosteriorTransform, or an MC objective."
                )
            factor = float(posterior_transform.weights)
            offset = float(posterior_transform.offset)
        every = points, time, shape, len(lead), observation_noise is True, added, factor, offset
        return AdaptivePosterior(self._drawing, *every)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """A model conditioned on q more observations; the units of y and time do not change.

        Args:
            X: Inputs, `batch_shape' x q x d`; no time may be before the model's newest observation.
            Y: Observations, `batch_shape' x q x 1`; leading dimensions that the model lacks contain
                further trials.
            noise: Must be None (not a tensor of any shape), because the bank estimates the noise.

        Raises:
            InputDataError: If a new observation is earlier than the newest observation of the
                model, or if shapes do not match.
            UnsupportedError: If ``noise`` is given, or if the trials need too much memory.
        """
        if noise is not None:
            raise UnsupportedError(
                "condition_on_observations got noise, but a bank learns the noise and the scale of "
                "y; pass noise=None, or use a TimeVaryingGP."
            )
        check_measurements(X, Y, self.time_dim, self.train_inputs[0].shape[-1])
        shape = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        check_memory(self.prior, shape, self.train_targets.shape[-1] + X.shape[-2])
        X, Y = in_order(
            X.expand(*shape, *X.shape[-2:]), Y.expand(*shape, *Y.shape[-2:]), self.time_dim
        )
        points, time = split(X, self.time_dim)
        check_points(self.prior, points, time, self.newest.unsqueeze(-1))
        trials = torch.arange(self.batch_shape.numel(), device=time.device)
        running = self.running.repeated(trials.view(self.batch_shape).expand(shape).flatten())
        running = learned(self.prior, running, X, Y, self.time_dim)
        old, targets = self.train_inputs[0], self.train_targets.unsqueeze(-1)
        now = None if self._now is None else torch.maximum(self._now, time.amax(-1))
        return type(self)(
            self.prior,
            running,
            torch.cat([old.expand(*shape, *old.shape[-2:]), X], -2),
            torch.cat([targets.expand(*shape, *targets.shape[-2:]), Y], -2),
            self.time_dim,
            now,
        )

    def fantasize(
        self, X: Tensor, sampler: MCSampler, observation_noise: Tensor | None = None
    ) -> Self:
        """A model conditioned on noisy observations that are drawn from this model.

        Args:
            X: Inputs, `... x batch_shape x q x d`; the q points of a set share one time.
            sampler: Sampler that draws the fantasies; its ``sample_shape`` gives the number of
                fantasies.
            observation_noise: Must be None (not a tensor of any shape), because the bank estimates
                the noise.

        Returns:
            A model with batch shape `sample_shape x ... x batch_shape`, differentiable with respect
            to ``X``.

        Raises:
            InputDataError: If a point lies before the newest observation, or outside the bounds by
                more than a quarter of the range.
            UnsupportedError: If ``observation_noise`` is given, or if the fantasies need too much
                memory.
        """
        Y = sampler(self.posterior(X, observation_noise=True))
        return self.condition_on_observations(X, Y, noise=observation_noise)

    def subset_output(self, idcs: list[int]) -> Self:
        """The model itself, because it has a single output.

        Args:
            idcs: Indices of the outputs; must be [0] or [-1].

        Raises:
            UnsupportedError: If ``idcs`` is neither [0] nor [-1].
        """
        if list(idcs) not in ([0], [-1]):
            raise UnsupportedError(f"idcs is {idcs}, but the model has one output; give [0].")
        return self


def adaptive_model(
    train_X: Tensor,
    train_Y: Tensor,
    *,
    bounds: Tensor | None = None,
    time_dim: int = -1,
    now: float | Tensor | None = None,
    bank: Bank | None = None,
) -> AdaptiveModel:
    """A model that needs neither fitting nor prior knowledge of rate, lengthscale, noise or scale.

    The posterior is a mixture of the processes in the bank; see :mod:`botorch_tv.gp.mixture`.
    Observations may be in any units. The units of y and time are computed from the first four
    observations in order of time, and from any further observations at the time of the fourth
    observation. If y is equal in all observations used for the units, later observations are used
    too. ``adaptive_gp_ucb()`` has the same posterior given the same data, with wider bands of
    predictions; see :meth:`Adaptive.band_factor`.

    Predictions are possible from the time of the newest observation on. Fix the time of the points
    with :func:`~botorch_tv.acquisition.present.at_present`. For several outcomes, such as an
    objective and its constraints, combine models in ``botorch.models.model.ModelList``.

    Args:
        train_X: Inputs in float64, `batch_shape x n x d`, including the time column.
        train_Y: Observations, `batch_shape x n x 1`.
        bounds: Smallest and largest values of the columns other than time, `2 x (d - 1)`; the unit
            cube by default. Candidate lengthscales are fractions of the range of each column,
            whereas ``TimeVaryingGP`` learns lengthscales in the units of the columns.
        time_dim: Index of the time column.
        now: Present time, scalar or `batch_shape`; None to follow the newest observation.
        bank: The candidate processes; ``Bank()`` if None.

    Raises:
        BotorchTensorDimensionError: If shapes do not match.
        InputDataError: If a value is not finite, if a point lies outside the bounds, if an
            observation is later than ``now``, if all y are equal, if the dtype is not float64, or
            if there are more than 20 columns other than time.
        ValueError: If there is no column ``time_dim``, if ``bounds`` is not `2 x (d - 1)`, or if a
            lower bound is not below its upper bound.

    Example:
        >>> model = adaptive_model(train_X, train_Y)
        >>> best = at_present(qUpperConfidenceBound(model, beta=4.0), now=12.0)
        >>> x, _ = optimize_acqf(best, bounds[:, :-1], q=2, num_restarts=4, raw_samples=64)
    """
    time_dim, d = column_of_time(train_X, time_dim), train_X.shape[-1]
    check_measurements(train_X, train_Y, time_dim)
    warn_of_no_time(train_X, time_dim)
    check_rows(train_X, train_Y, None)
    if not 2 <= d <= MOST_COLUMNS + 1:
        raise InputDataError(
            f"train_X has {d} columns, but it must have a column of time and 1 to {MOST_COLUMNS} "
            "other columns."
        )
    if bounds is None:
        bounds = torch.stack([train_X.new_zeros(d - 1), train_X.new_ones(d - 1)])
    require(
        bounds.shape == (2, d - 1) and bool((bounds[0] < bounds[1]).all()),
        f"bounds are {bounds.tolist()}; give 2 x {d - 1}, one column for each input other than "
        "time, with lower bounds in the first row and upper bounds in the second.",
    )
    lower, upper = bounds.to(train_X)
    prior = prior_on_box(Bank() if bank is None else bank, lower, upper, 0)
    shape = train_X.shape[:-2]
    check_memory(prior, shape, train_X.shape[-2])
    X, Y = in_order(train_X, train_Y, time_dim)
    points, time = split(X, time_dim)
    check_points(prior, points, time, time.new_full((), -torch.inf))
    y, when = Y.reshape(shape.numel(), -1), time.reshape(shape.numel(), -1)
    least, good = min(y.shape[-1], FIRST), torch.ones_like(y, dtype=torch.bool)
    choice = points.reshape(*y.shape, d - 1)
    units = units_after(prior, Measured(choice, y, good, when, torch.zeros_like(y)), least)
    if not bool(units.ready.all()):
        raise InputDataError(
            f"train_Y has {y.shape[-1]} observations without spread, so the unit of y is "
            "undefined; add observations that differ."
        )
    running = mixture_prior(prior, shape.numel())._replace(units=units, settled=True)
    running = learned(prior, running, X, Y, time_dim)
    if now is not None:
        now = like(now, train_X)
        check_now(now, running.now.time.view(shape))
        now = now.expand(shape)
    return AdaptiveModel(prior, running, X, Y, time_dim, now)
