"""A BoTorch model without prior knowledge: a bank of processes, weighted by their predictions.

Importing this registers a sampler with BoTorch's ``get_sampler``.
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
    units_after,
)
from botorch_tv.gp.mixture.filter import RunningMixture, advanced, mixture_prior
from botorch_tv.gp.mixture.forecast import Forecast
from botorch_tv.kernels.spatio_temporal import like
from botorch_tv.models.checks import (
    check_data,
    check_inputs,
    check_now,
    check_rows,
    column_of_time,
    warn_of_no_time,
)
from botorch_tv.validation import require


class AdaptivePosterior(Posterior):  # type: ignore[misc]
    """A factor times the mixture at q points jointly, which is no Gaussian, and an offset.

    Mean, variance and covariance are those of the mixture. A sample is a function of a member that
    is drawn first; sets of points that share random numbers are on one function, which follows
    points smoothly. What features leave out of a function, and noise, is drawn for every point.

    Args:
        drawing: The mixture after its measurements.
        points: N sets of q for each of T trials, without time, `T x N x q x (d - 1)`.
        time: Their times, `T x N x q`.
        batch_shape: Dimensions of the sets, N in all, before those of the trials, T in all.
        sets: How many dimensions of the sets there are.
        own_noise: Whether the noise of an observation is added, each member's own.
        added: Variance besides, in units of y, `T x N x q`; None for none.
        factor: By which the objective is multiplied.
        offset: What is then added.
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
        self._width, self._gap = drawing.normals + time.shape[-1], self.places[1]
        self._added = None if added is None else added * factor**2
        units = drawing.running.units
        self._centre, self._unit = units.centre * factor + offset, units.spread * factor

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return self._unit.device

    @property
    def dtype(self) -> torch.dtype:
        """Always float64."""
        return self._unit.dtype

    @property
    def batch_shape(self) -> Size:
        """That of the points, and of the model."""
        return self._shape

    @cached_property
    def mean(self) -> Tensor:
        """`batch_shape x q x 1`."""
        value = self.drawing.mean(self.places) * self._unit[:, None, None]
        return self._shaped((value + self._centre[:, None, None]).unsqueeze(-1))

    @cached_property
    def variance(self) -> Tensor:
        """`batch_shape x q x 1`."""
        value = self.drawing.variance(self.places).clamp_min(0)
        value = value * self._unit[:, None, None].square() + self._noise
        return self._shaped(value.unsqueeze(-1))

    @cached_property
    def covariance_matrix(self) -> Tensor:
        """Among the points of every set, `batch_shape x q x q`."""
        value = self.drawing.covariance(self.places) * self._unit.view(-1, 1, 1, 1).square()
        return self._shaped(value + torch.diag_embed(self._noise.expand(value.shape[:-1])))

    def rsample(self, sample_shape: Size | None = None) -> Tensor:
        """Values of functions, the same for all sets of points, `sample_shape x ... x q x 1`.

        Args:
            sample_shape: How many; one unless given.

        Raises:
            InputDataError: If the points of a set do not share their time.
        """
        shape = Size([1]) if sample_shape is None else sample_shape
        trials = self._shape[self._sets :]
        every = (*shape, *[1] * self._sets, *trials, self._width)
        base = torch.randn(*every, dtype=self.dtype, device=self.device)
        return self.rsample_from_base_samples(shape, base)

    def rsample_from_base_samples(self, sample_shape: Size, base_samples: Tensor) -> Tensor:
        """Values of the functions that standard normal variates make.

        Args:
            sample_shape: How many.
            base_samples: `sample_shape x base_sample_shape`, dimensions of which may be 1.

        Raises:
            InputDataError: If the points of a set do not share their time.
        """
        gap, normal = self._gap, self._by_trial(base_samples, sample_shape)
        if bool((gap != gap[..., :1]).any()):
            raise InputDataError(
                "points that are sampled jointly share their time, but there are several in a "
                "batch; hold time by at_present or fixed_features."
            )
        q = gap.shape[-1]
        value, variance = self.drawing.functions(
            normal[..., :-q], self.places, noise=self._own_noise
        )
        if self._added is not None:
            variance = variance + (self._added / self._unit[:, None, None].square()).unsqueeze(-1)
        own = variance.clamp_min(torch.finfo(self.dtype).tiny).sqrt() * normal[..., -q:].mT
        unit, centre = (one.view(-1, 1, 1, 1) for one in (self._unit, self._centre))
        value = (value + own) * unit + centre
        return value.permute(3, 1, 0, 2).reshape(*sample_shape, *self._shape, q, 1)

    @property
    def base_sample_shape(self) -> Size:
        """Variates of a function and, behind them, one for every point."""
        return Size((*self._shape, self._width))

    @property
    def batch_range(self) -> tuple[int, int]:
        """All dimensions but the last."""
        return 0, -1

    def _extended_shape(self, sample_shape: Size = Size()) -> Size:  # noqa: B008
        return Size((*sample_shape, *self._shape, self._gap.shape[-1], 1))

    @property
    def _noise(self) -> Tensor:
        """Variance of what is observed besides f, `T x 1 x 1` or `T x N x q`."""
        noise = self.drawing.model_noise() * self._unit.square() * self._own_noise
        whole = noise[:, None, None]
        return whole if self._added is None else whole + self._added

    def _by_trial(self, base: Tensor, sample_shape: Size) -> Tensor:
        """Base samples as `T x N' x M x width`, N' being 1 where all sets share them."""
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
        """`T x N x * -> batch_shape x *`."""
        return value.transpose(0, 1).reshape(*self._shape, *value.shape[2:])


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


OUTSIDE = 1e-6
"""Share of a side by which measurements may lie outside the bounds."""
BEYOND = 0.25
"""The same of points asked about. BoTorch looks a tenth of the baseline's range past its ends for
the least value that an objective may have; further away bounds or units are wrong."""
MOST_NUMBERS = 2**28
"""Most numbers of all covariances, 2 GiB: every trial and fantasy has a matrix per member."""


def check_measurements(X: Tensor, Y: Tensor, time_dim: int, columns: int | None = None) -> None:
    """Raise unless ``X``, `... x n x d`, and ``Y``, `... x n x 1`, are measurements in float64.

    Raises:
        BotorchTensorDimensionError: If shapes do not fit.
        InputDataError: If a number is not finite or too large, or not in float64.
    """
    check_data(X, Y, columns=columns, time_dim=time_dim)
    check_rows(X, Y, None, outputs=1)
    if X.dtype != torch.float64:
        raise InputDataError(
            f"X and Y are {X.dtype}, in which covariances updated measurement by measurement lose "
            "too many digits; use torch.float64."
        )


def check_points(
    prior: BankPrior, points: Tensor, time: Tensor, newest: Tensor, beyond: float = OUTSIDE
) -> None:
    """Raise unless points lie within the bounds and no earlier than what was learned from.

    Args:
        prior: Of the bank.
        points: `... x q x d`.
        time: `... x q`.
        newest: Broadcast with it.
        beyond: Share of a side by which they may lie outside.

    Raises:
        InputDataError: If not.
    """
    U = (points.detach() - prior.lower) / (prior.upper - prior.lower)
    out, early = ~((U - 0.5).abs() <= 0.5 + beyond), ~(time.detach() >= newest)
    if bool(out.any()):
        raise InputDataError(
            f"a point has {points[out][0].item():g} in a column, but points lie between "
            f"{prior.lower.tolist()} and {prior.upper.tolist()}; give bounds that hold all points."
        )
    if bool(early.any()):
        raise InputDataError(
            f"a point has time {time[early][0].item():g}, but the newest measurement was made at "
            f"{newest.expand_as(time)[early][0].item():g}; ask at the present by at_present or "
            "fixed_features, and for late measurements make the model anew."
        )


def check_room(prior: BankPrior, shape: Size) -> None:
    """Raise an ``UnsupportedError`` if covariances of so many trials would not fit."""
    per_trial = len(prior.rate) * sum(size**2 for size in prior.sizes)
    if shape.numel() * per_trial > MOST_NUMBERS:
        raise UnsupportedError(
            f"{shape.numel()} trials or fantasies of {per_trial} numbers each are more than the "
            f"{MOST_NUMBERS} that a model may hold; use fewer, or a smaller bank, such as "
            "Bank(features=64)."
        )


def learned(
    prior: BankPrior, running: RunningMixture, X: Tensor, Y: Tensor, time_dim: int
) -> RunningMixture:
    """The posterior of flat trials once all rows have been learned from, in their order.

    Args:
        prior: Of the bank.
        running: Before, in units that are known.
        X: `batch_shape x n x d`.
        Y: `batch_shape x n x 1`.
        time_dim: Index of the time column.
    """
    trials, rows, one = len(running.shape), X.shape[-2], torch.ones_like(running.shape)
    points, time = split(X.reshape(trials, rows, -1), time_dim)
    for row, y in enumerate(Y.reshape(trials, rows).unbind(-1)):
        running = advanced(prior, running, points[:, row], y, time[:, row], one, one.bool())
    return running


def in_order(X: Tensor, Y: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """Rows in order of time; those of the same time as they are."""
    order = X[..., time_dim].argsort(stable=True, dim=-1).unsqueeze(-1)
    return X.gather(-2, order.expand_as(X)), Y.gather(-2, order)


def split(X: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """The columns other than time, `... x (d - 1)`, and time, `...`."""
    points = torch.cat([X[..., :time_dim], X[..., time_dim + 1 :]], -1)
    return points, X[..., time_dim]


class AdaptiveModel(Model):  # type: ignore[misc]
    """The posterior of a bank of processes at the times in ``X``; see :func:`adaptive_model`.

    It needs no fitting: members are weighted and conditioned in one pass over the data, and each
    further observation costs the same as one of these.

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
        """One."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """The batch shape of the data."""
        return self.train_targets.shape[:-1]

    @property
    def newest(self) -> Tensor:
        """Time of the newest observation, `batch_shape`."""
        return self.running.time.view(self.batch_shape)

    @property
    def now(self) -> Tensor:
        """Present time, `batch_shape`: as given, or that of the newest observation."""
        return self.newest if self._now is None else self._now

    @property
    def weights(self) -> Tensor:
        """Weights of members, `batch_shape x lengthscales x rates x hazards x noise ratios`."""
        bank = self.prior.bank
        share = self.running.member_weights(self.prior)
        sizes = (len(bank.rates), len(bank.hazards), len(bank.noise_ratios))
        return share.view(*self.batch_shape, share.shape[-2], *sizes)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> AdaptivePosterior:
        """The mixture at the points and times in ``X``.

        Points may lie up to a quarter of a side outside the bounds. Features of a kernel are a
        projection there, too: each process extrapolates, and less and less of it is known.

        Args:
            X: `... x batch_shape x q x d`, no earlier than the newest observation.
            output_indices: None or [0].
            observation_noise: Whether to add the noise of a new observation, each member's own; or
                its variance, `... x q x 1`.
            posterior_transform: A ``ScalarizedPosteriorTransform``.

        Raises:
            InputDataError: If a point lies before the newest observation or far out of bounds.
            UnsupportedError: For other transforms.
        """
        require(
            output_indices in (None, [0]),
            f"output_indices is {output_indices}, but there is one output; pass None.",
        )
        check_inputs(X, self.train_inputs[0].shape[-1])
        shape = torch.broadcast_shapes(X.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        lead = shape[: len(shape) - len(self.batch_shape)]

        def by_trial(one: Tensor) -> Tensor:
            wide = one.expand(*shape, *one.shape[-2:])
            by_set = wide.reshape(lead.numel(), self.batch_shape.numel(), *one.shape[-2:])
            return by_set.transpose(0, 1)

        points, time = split(by_trial(X), self.time_dim)
        check_points(self.prior, points, time, self.running.time[:, None, None], BEYOND)
        factor, offset, added = 1.0, 0.0, None
        if isinstance(observation_noise, Tensor):
            added = by_trial(observation_noise.expand(*shape, X.shape[-2], 1)).squeeze(-1)
        if posterior_transform is not None:
            if type(posterior_transform) is not ScalarizedPosteriorTransform:
                raise UnsupportedError(
                    f"posterior_transform is {posterior_transform!r}, but a mixture is no "
                    "Gaussian; give an objective of samples, or ScalarizedPosteriorTransform."
                )
            factor, offset = (
                float(one) for one in (posterior_transform.weights, posterior_transform.offset)
            )
        every = points, time, shape, len(lead), observation_noise is True, added, factor, offset
        return AdaptivePosterior(self._drawing, *every)

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """The model conditioned on q more observations, in the same units.

        Args:
            X: `batch_shape' x q x d`, no earlier than the previous observations.
            Y: `batch_shape' x q x 1`; leading dimensions beyond the model's make more trials.
            noise: Must be None, since the bank estimates the noise.

        Raises:
            InputDataError: If an observation lies before the newest, or shapes do not fit.
            UnsupportedError: If ``noise`` is given, or so many trials take too much memory.
        """
        if noise is not None:
            raise UnsupportedError(
                "condition_on_observations got noise, but a bank, which learns the scale of y, "
                "cannot weigh it exactly; leave it out, or use a TimeVaryingGP."
            )
        check_measurements(X, Y, self.time_dim, self.train_inputs[0].shape[-1])
        shape = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        check_room(self.prior, shape)
        X, Y = in_order(
            X.expand(*shape, *X.shape[-2:]), Y.expand(*shape, *Y.shape[-2:]), self.time_dim
        )
        points, time = split(X, self.time_dim)
        check_points(self.prior, points, time, self.newest.unsqueeze(-1))
        running = self.running.view(self.batch_shape).expanded(shape).flat()
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
        """The model conditioned on observations drawn from it, with noise.

        Args:
            X: `... x batch_shape x q x d`, each set of q points at one time.
            sampler: Draws the fantasies, `sample_shape`.
            observation_noise: Must be None, since the bank estimates the noise.

        Returns:
            A model of `sample_shape x ... x batch_shape`, differentiable by ``X``.

        Raises:
            InputDataError: See :meth:`posterior`.
            UnsupportedError: If ``observation_noise`` is given, or so many fantasies take too much
                memory.
        """
        Y = sampler(self.posterior(X, observation_noise=True))
        return self.condition_on_observations(X, Y, noise=observation_noise)

    def subset_output(self, idcs: list[int]) -> Self:
        """The model of a subset of the outputs, of which there is only one.

        Args:
            idcs: [0].

        Raises:
            UnsupportedError: For others.
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
    """A model without prior knowledge of rate, lengthscale, noise or scale, and without fitting.

    See :mod:`botorch_tv.gp.mixture` for its members. Observations may be in any units: the
    first four in order of time, with others made at the time of the fourth, or more if these do not
    differ, set the units of y and of time, as in ``adaptive_gp_ucb()``, which has the same
    posterior given the same data. The posterior is a
    mixture; acquisition functions draw a member, then a function. Predictions start at the newest
    observation, so fix time with :func:`~botorch_tv.acquisition.present.at_present`. Several
    outcomes, such as an objective and its constraints, go into ``botorch.models.model.ModelList``.

    Args:
        train_X: Inputs, `batch_shape x n x d`, one column of which is time, in float64.
        train_Y: Observations, `batch_shape x n x 1`.
        bounds: Smallest and largest values of the columns other than time, `2 x (d - 1)`; the unit
            cube by default. Candidate lengthscales are fractions of these sides, whereas
            ``TimeVaryingGP`` learns them in the units of the columns.
        time_dim: Index of the time column.
        now: Present time, a number or `batch_shape`; that of the newest observation if None.
        bank: The candidate processes.

    Raises:
        BotorchTensorDimensionError: If shapes do not fit.
        InputDataError: If a value is not finite, a point lies out of bounds, an observation is
            later than ``now``, all y are the same, dtypes are not float64, or there are more than
            20 columns besides time.
        ValueError: If there is no column ``time_dim``, or bounds do not fit or are not in order.

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
            f"train_X has {d} columns, but a bank serves time and from one to {MOST_COLUMNS} more."
        )
    if bounds is None:
        bounds = torch.stack([train_X.new_zeros(d - 1), train_X.new_ones(d - 1)])
    require(
        bounds.shape == (2, d - 1) and bool((bounds[0] < bounds[1]).all()),
        f"bounds are {bounds.tolist()}, but they are 2 x {d - 1}, a column for each besides time, "
        "the first row below the second.",
    )
    lower, upper = bounds.to(train_X)
    prior = prior_on_box(Bank() if bank is None else bank, lower, upper, 0)
    shape = train_X.shape[:-2]
    check_room(prior, shape)
    X, Y = in_order(train_X, train_Y, time_dim)
    points, time = split(X, time_dim)
    check_points(prior, points, time, time.new_full((), -torch.inf))
    y, when = (one.reshape(shape.numel(), -1) for one in (Y, time))
    least, good = min(y.shape[-1], FIRST), torch.ones_like(y, dtype=torch.bool)
    units = units_after((y, good, when, y.new_zeros(*y.shape, 0)), least)
    if not bool(units.ready.all()):
        raise InputDataError(
            f"train_Y holds {y.shape[-1]} observations without a spread, from which no unit can be "
            "told; add some that differ."
        )
    running = mixture_prior(prior, shape).flat()._replace(units=units, settled=True)
    running = learned(prior, running, X, Y, time_dim)
    if now is not None:
        now = like(now, train_X)
        check_now(now, running.time.view(shape))
        now = now.expand(shape)
    return AdaptiveModel(prior, running, X, Y, time_dim, now)
