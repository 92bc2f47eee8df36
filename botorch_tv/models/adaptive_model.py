"""A BoTorch model without prior knowledge: a bank of processes, weighted by their predictions.

Importing this registers a sampler with BoTorch's ``get_sampler``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    MixtureUnits,
    prior_on_box,
    units_after,
)
from botorch_tv.gp.mixture.filter import RunningMixture, advanced, member_weights, mixture_prior
from botorch_tv.gp.mixture.forecast import Forecast, Places, forecast, places
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
        value, variance = self.drawing.functions(
            normal[..., :-q], self.places, noise=self.own_noise
        )
        if self.added is not None:
            variance = variance + (self.added / self.unit[:, None, None].square()).unsqueeze(-1)
        own = variance.clamp_min(torch.finfo(self.dtype).tiny).sqrt() * normal[..., -q:].mT
        value = (value + own) * self.unit.view(T, 1, 1, 1) + self.centre.view(T, 1, 1, 1)
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
            f"X and Y are {X.dtype}, but covariances that are updated measurement by measurement "
            "lose too many digits in it; use torch.float64."
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
    out = ~((U - 0.5).abs() <= 0.5 + beyond)
    if bool(out.any()):
        raise InputDataError(
            f"a point has {points[out][0].item():g} in a column, but points lie between "
            f"{prior.lower.tolist()} and {prior.upper.tolist()}; give bounds that hold all points, "
            "adaptive_model(..., bounds=bounds)."
        )
    early = ~(time.detach() >= newest)
    if bool(early.any()):
        raise InputDataError(
            f"a point has time {time[early][0].item():g}, but the newest measurement was made at "
            f"{newest.expand_as(time)[early][0].item():g}, and a bank knows what holds from then "
            "on; ask at the present by at_present or fixed_features, and for late measurements "
            "make the model anew."
        )


def check_room(prior: BankPrior, shape: Size) -> None:
    """Raise if covariances of so many trials would not fit.

    Raises:
        UnsupportedError: If so.
    """
    per_trial = len(prior.members.rate) * sum(size**2 for size in prior.sizes)
    if shape.numel() * per_trial > MOST_NUMBERS:
        raise UnsupportedError(
            f"{shape.numel()} trials or fantasies of {per_trial} numbers each are more than the "
            f"{MOST_NUMBERS} that a model may hold; use fewer, or a smaller bank, such as "
            "Bank(features=64)."
        )


def in_order(X: Tensor, Y: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """Rows in order of time; those of the same time as they are."""
    order = X[..., time_dim].argsort(stable=True, dim=-1).unsqueeze(-1)
    return X.gather(-2, order.expand_as(X)), Y.gather(-2, order)


def split(X: Tensor, time_dim: int) -> tuple[Tensor, Tensor]:
    """The columns other than time, `... x (d - 1)`, and time, `...`."""
    points = torch.cat([X[..., :time_dim], X[..., time_dim + 1 :]], -1)
    return points, X[..., time_dim]


def learned(
    prior: BankPrior, running: RunningMixture, points: Tensor, time: Tensor, Y: Tensor
) -> RunningMixture:
    """The posterior of flat trials once all rows have been learned from, in their order.

    Args:
        prior: Of the bank.
        running: Before, in units that are known.
        points: `batch_shape x n x d`.
        time: `batch_shape x n`.
        Y: `batch_shape x n x 1`.
    """
    rows, trials = points.shape[-2], len(running.shape)
    X, when, y = points.reshape(trials, rows, -1), time.reshape(trials, rows), Y.reshape(trials, -1)
    one = torch.ones_like(running.shape)
    for row in range(rows):
        running = advanced(prior, running, X[:, row], y[:, row], when[:, row], one, one.bool())
    return running._replace(number=running.number + rows)


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
        self._drawing = forecast(prior, running)

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
        share = member_weights(self.running.groups, self.prior.members)
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
        sets, trials, q = lead.numel(), self.batch_shape.numel(), X.shape[-2]
        flat = X.expand(*shape, *X.shape[-2:]).reshape(sets, trials, q, -1).transpose(0, 1)
        points, time = split(flat, self.time_dim)
        check_points(self.prior, points, time, self.running.time[:, None, None], BEYOND)
        added = None
        if isinstance(observation_noise, Tensor):
            wide = observation_noise.expand(*shape, q, 1)
            added = wide.reshape(sets, trials, q).transpose(0, 1)
        found = AdaptivePosterior(
            drawing=self._drawing,
            places=places(self.prior, self.running, points, time),
            own_noise=observation_noise is True,
            added=added,
            lead=lead,
            trials=self.batch_shape,
            centre=self.running.units.centre,
            unit=self.running.units.spread,
        )
        return found if posterior_transform is None else _transformed(found, posterior_transform)

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
                "cannot weigh a variance in units of y exactly; leave it out, or use a "
                "TimeVaryingGP."
            )
        check_measurements(X, Y, self.time_dim, self.train_inputs[0].shape[-1])
        shape = torch.broadcast_shapes(X.shape[:-2], Y.shape[:-2], self.batch_shape)  # type: ignore[no-untyped-call]
        check_room(self.prior, shape)
        X, Y = in_order(
            X.expand(*shape, *X.shape[-2:]), Y.expand(*shape, *Y.shape[-2:]), self.time_dim
        )
        running = self.running.view(self.batch_shape).expanded(shape).flat()
        points, time = split(X, self.time_dim)
        check_points(self.prior, points, time, self.newest.unsqueeze(-1))
        running = learned(self.prior, running, points, time, Y)
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


def _transformed(found: AdaptivePosterior, transform: PosteriorTransform) -> AdaptivePosterior:
    if type(transform) is not ScalarizedPosteriorTransform or len(transform.weights) != 1:
        raise UnsupportedError(
            f"posterior_transform is {transform!r}, but a mixture is no Gaussian and has one "
            "output; give an objective of samples, or ScalarizedPosteriorTransform of one weight."
        )
    return found.scaled(float(transform.weights[0]), float(transform.offset))


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
    lower, upper = _corners(bounds, train_X, d - 1)
    prior = prior_on_box(Bank() if bank is None else bank, lower, upper, 0)
    shape = train_X.shape[:-2]
    check_room(prior, shape)
    X, Y = in_order(train_X, train_Y, time_dim)
    points, time = split(X, time_dim)
    check_points(prior, points, time, time.new_full((), -torch.inf))
    running = mixture_prior(prior, shape).flat()
    running = running._replace(
        units=_units(Y.reshape(shape.numel(), -1), time.reshape(shape.numel(), -1)), settled=True
    )
    running = learned(prior, running, points, time, Y)
    if now is not None:
        now = like(now, train_X)
        check_now(now, running.time.view(shape))
        now = now.expand(shape)
    return AdaptiveModel(prior, running, X, Y, time_dim, now)


def _corners(bounds: Tensor | None, like: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    if bounds is None:
        return like.new_zeros(columns), like.new_ones(columns)
    require(
        bounds.shape == (2, columns) and bool((bounds[0] < bounds[1]).all()),
        f"bounds are {bounds.tolist()}, but {columns} columns besides time make them "
        f"2 x {columns}, the first row below the second.",
    )
    lower, upper = bounds.to(like)
    return lower, upper


def _units(y: Tensor, time: Tensor) -> MixtureUnits:
    """Units of every trial after `T x n` observations, in order of time."""
    n = y.shape[-1]
    units = units_after(
        y, torch.ones_like(y, dtype=torch.bool), time, y.new_zeros(*y.shape, 0), min(n, FIRST)
    )
    if not bool(units.known.all()):
        raise InputDataError(
            f"train_Y holds {n} observations without a spread, from which no unit can be told; add "
            "some that differ."
        )
    return units
