"""A drop-in replacement of ``SingleTaskGP`` for an objective that changes with time."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Never, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.models.utils import validate_input_scaling
from botorch.posteriors import Posterior
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood
from gpytorch.means import Mean
from gpytorch.priors import Prior
from torch import Size, Tensor

from botorch_tv.forgetting import Decay, Inflation, Markov
from botorch_tv.kernels import SpatioTemporalKernel
from botorch_tv.likelihoods import AgeNoiseLikelihood
from botorch_tv.models import defaults
from botorch_tv.models.aging_gp import AgingGP
from botorch_tv.models.checks import (
    check_honoured,
    check_inputs,
    check_magnitude,
    check_now,
    check_outputs,
    check_times,
    column_of_time,
    warn_of_no_time,
    warn_of_small_outputs,
)
from botorch_tv.models.forgetting import Forgetting, age_noise, current, separate, temporal_kernel
from botorch_tv.models.subset import batched_parameters, subset_batch_shapes
from botorch_tv.models.transform_check import check_transform
from botorch_tv.validation import refuse_unknown, require

INITIAL_EPSILON = 0.01
"""The default ε: per median time between observations where learned, else per unit of time."""
OTHER_NAMES = {
    "epsilon": "Give forgetting=Markov(epsilon).",
    "sigma_w2": "Give forgetting=Wiener(sigma_w2).",
    "gamma": "Give forgetting=ExponentialWeights(gamma).",
    "alpha": "Give forgetting=UncertaintyInjection(alpha).",
    "decay": "Give forgetting=, a decay.",
    "kernel": "Give spatial_module=, a kernel over the columns other than time.",
    "noise": "Give train_Yvar=, the noise variance of every observation.",
}
"""What to give instead of names that arguments have elsewhere in this package."""


class TimeVaryingGP(AgingGP):
    """A single-task GP whose observations are discounted with age.

    Time is a column of ``X``, in any unit and with any spacing. If the objective drifts, described
    by a decay of covariance (``Markov``, ``Wiener``), time is another input of the kernel, and
    predictions are for the times in ``X``. If observations age (``ExponentialWeights``,
    ``UncertaintyInjection``), their noise grows with ``now - t``. The two can be combined.

    To optimise at the present, evaluate the acquisition function there with
    :func:`~botorch_tv.acquisition.present.at_present`, or fix the time column with
    ``optimize_acqf(..., fixed_features={d - 1: now})``.

    Categorical inputs are a column of whole numbers under BoTorch's categorical kernel,
    ``spatial_module=RBFKernel(active_dims=[0]) * CategoricalKernel(active_dims=[1])``; optimise
    them with ``optimize_acqf_mixed``.

    The priors are those of ``SingleTaskGP``: scale the spatial columns to the unit cube, using
    ``Normalize(d, indices=[...])`` without the time column, and standardise outcomes. When a decay
    is learned from standardised outcomes, the default kernel also has an output scale and the noise
    prior is wider, see :mod:`botorch_tv.models.defaults`. Rates are learned per median time between
    observations, whatever the unit of time.

    Args:
        train_X: Inputs, `batch_shape x n x d`, one column of which is time.
        train_Y: Observations, `batch_shape x n x m`.
        train_Yvar: Noise variances of the observations when they were made, `batch_shape x n x m`;
            if None, a single variance is learned.
        likelihood: A Gaussian likelihood. The model passes the data and ``now`` to an
            ``AgeNoiseLikelihood``.
        covar_module: A kernel over all columns including time, as in ``SingleTaskGP``, which takes
            the place of a decay. For a kernel over the other columns use ``spatial_module``.
        mean_module: The prior mean; a learned constant if None.
        outcome_transform: As in ``SingleTaskGP``: ``Standardize`` by default, so a variance carried
            over from another dataset changes its meaning. None by default if ``learn_forgetting``
            is False.
        input_transform: A transform of the columns other than time.
        forgetting: A decay, an inflation, or a sequence of one each, from
            ``botorch_tv.forgetting`` or your own; the values of their parameters are the initial
            ones. ``Static()`` to forget nothing. By default ``Markov``, starting from ε = 0.01 per
            median time between observations, unless ``covar_module`` or an ``AgeNoiseLikelihood``
            is given.
        time_dim: Index of the time column in ``train_X``.
        now: Present time, a number or `batch_shape`, no earlier than any observation; if None, the
            time of the newest observation.
        spatial_module: Kernel over the columns other than time; BoTorch's default if None.
        learn_forgetting: Whether fitting learns the parameters of ``forgetting``, such as ε, σ_w²,
            γ, α and κ; otherwise they are fixed and have no priors.
        unknown: Rejected, with the likely name if misspelt.

    Raises:
        InputDataError: If an observation is later than ``now``, a time is not finite, the input
            transform touches time, a value is NaN or dtypes differ.
        BotorchTensorDimensionError: If shapes do not fit.
        TypeError: If there is no such argument.
        ValueError: If ``forgetting`` contradicts the other arguments, or the likelihood's class
            overrides ``marginal`` or ``__call__``.

    Example:
        >>> model = TimeVaryingGP(train_X, train_Y, forgetting=Markov(epsilon=0.03))
        >>> fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        >>> model.forgetting  # the learned rate
        Markov(epsilon=0.027)
        >>> model = model.condition_on_observations(X, Y)
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        train_Yvar: Tensor | None = None,
        likelihood: Likelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        outcome_transform: OutcomeTransform | _DefaultType | None = DEFAULT,
        input_transform: InputTransform | None = None,
        forgetting: Forgetting = None,
        time_dim: int = -1,
        now: float | Tensor | None = None,
        spatial_module: Kernel | None = None,
        learn_forgetting: bool = True,
        **unknown: Never,
    ) -> None:
        refuse_unknown("TimeVaryingGP", unknown, TimeVaryingGP, OTHER_NAMES)
        self._validate_tensor_args(X=train_X, Y=train_Y, Yvar=train_Yvar)
        time = _checked_time(train_X, train_Y, train_Yvar, input_transform, time_dim)
        warn_of_no_time(train_X, time)
        warn_of_small_outputs(train_Y)
        decay, inflation = _separated(forgetting, covar_module, spatial_module, likelihood)
        aged = isinstance(likelihood, AgeNoiseLikelihood)
        default_decay = forgetting is None and covar_module is None and not aged
        if default_decay:
            decay = Markov(epsilon=INITIAL_EPSILON)
        default_space = covar_module is None and spatial_module is None
        standardized = outcome_transform == DEFAULT or isinstance(outcome_transform, Standardize)
        scaled = learn_forgetting and decay is not None and default_space and standardized
        _, batch_shape = self.get_batch_dimensions(train_X, train_Y)
        if covar_module is None:
            others, times = train_X.shape[-1] - 1, train_X[..., time]
            require(
                others > 0,
                "train_X has no column but time, so that there is nothing to choose; put the time "
                "of each row behind its x, torch.cat([x, time], -1).",
            )
            if spatial_module is None:
                spatial_module = defaults.space(others, batch_shape, scaled=scaled)
            per_output = times.unsqueeze(-2) if train_Y.shape[-1] > 1 else times
            temporal = temporal_kernel(decay, per_output, batch_shape, learn_forgetting)
            covar_module = SpatioTemporalKernel(spatial_module, temporal, time_dim=time)
        if outcome_transform == DEFAULT and not learn_forgetting:
            outcome_transform = None
        if scaled and likelihood is None and train_Yvar is None:
            likelihood = defaults.noise(batch_shape)
        with warnings.catch_warnings():
            # What BoTorch says about float32 has been said above, to the caller.
            warnings.simplefilter("ignore", InputDataWarning)
            super().__init__(
                train_X,
                train_Y,
                train_Yvar,
                likelihood=likelihood,
                covar_module=covar_module,
                mean_module=mean_module,
                outcome_transform=outcome_transform,
                input_transform=input_transform,
            )
        check_honoured(self)
        self.time_dim = time
        if inflation is not None:
            noise_prior = defaults.noise_prior() if scaled else DEFAULT
            self._inflate_noise(inflation, learn_forgetting, noise_prior)
        self.measure()
        if default_decay and learn_forgetting:
            self._start_from(INITIAL_EPSILON)
        if default_space:
            self._warn_of_scales(train_X)
        self._subset_batch_dict = batched_parameters(self, own_mean=mean_module is not None)
        self.set_now(self.likelihood.now if now is None and aged else now)

    def _inflate_noise(
        self, inflation: Inflation, learn: bool, noise_prior: Prior | _DefaultType
    ) -> None:
        """Replace the likelihood by one whose noise grows with age."""
        aged = age_noise(
            inflation, self.time_dim, self.likelihood, self._aug_batch_shape, learn, noise_prior
        )
        self.likelihood = aged.to(self.train_targets)
        self.likelihood.aging.restart()

    def _start_from(self, epsilon: float) -> None:
        """Start learning from ε per median time between observations."""
        temporal: Any = self.covar_module.temporal
        temporal.set_epsilon_per(temporal.unit, epsilon)

    def _warn_of_scales(self, train_X: Tensor) -> None:
        """Warn of unscaled data under the default kernel, as BoTorch does, but not of time."""
        targets = self.train_targets
        with torch.no_grad():
            validate_input_scaling(
                self.transform_inputs(train_X),
                targets.unsqueeze(-1) if self.num_outputs == 1 else targets.mT,
                ignore_X_dims=[self.time_dim],
            )

    @property
    def forgetting(self) -> Decay | Inflation | tuple[Decay | Inflation, ...]:
        """The model's decay and inflation with their current values, per unit of time.

        A single one, such as ``Markov(epsilon=0.027)``, or a tuple if there are both or neither;
        can be passed to another model. Values of a batch are tensors, `batch_shape`.

        Raises:
            ValueError: If the unit of time is so long that ε rounds to 1.
        """
        return current(self)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """As for ``SingleTaskGP``, at the times in ``X``.

        With ``observation_noise=True`` observations at ``now`` or later have the noise of a new
        one, and observations in the past that of their age. Samplers of BoTorch that draw values
        before ``now`` from it warn: a setting that was best then need not be best at present.
        """
        check_inputs(X, self.train_inputs[0].shape[-1])
        found = super().posterior(X, output_indices, observation_noise, posterior_transform)
        kernel = self.covar_module
        if not (isinstance(kernel, SpatioTemporalKernel) and kernel.temporal is None):
            # On the instance, as BoTorch's outcome transforms take no posterior of another class.
            found.rsample_from_base_samples = partial(
                _samples_at,
                X[..., self.time_dim].detach(),
                self.now,
                found.rsample_from_base_samples,
            )
        return found

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """The model conditioned on q more observations, in O(n² q), equal to a refit on all data.

        With age noise, while ``now`` follows the newest observation, a later one makes all others
        older. Their noise changes and the factor is recomputed, O(n³). Exponential weights do not
        avoid this: they multiply all noise by a common c, but a factor of K + N does not give one
        of K + cN. It is avoided by setting ``now`` with :meth:`set_now`.

        See :meth:`GrowingGP.condition_on_observations`; ``noise`` is that at lag 0.

        Raises:
            InputDataError: If an observation is later than the ``now`` that was set.
        """
        check_inputs(X, self.train_inputs[0].shape[-1])
        check_times(X[..., self.time_dim])
        check_magnitude("X", X)
        if self._now is not None and X.shape[-2]:
            check_now(self._now, X[..., self.time_dim].amax(-1))
        return super().condition_on_observations(X, Y, noise)

    @classmethod
    def construct_inputs(
        cls,
        training_data: SupervisedDataset,
        forgetting: Forgetting = None,
        time_dim: int = -1,
        now: float | Tensor | None = None,
        spatial_module: Kernel | None = None,
        learn_forgetting: bool = True,
    ) -> dict[str, Any]:
        """Constructor arguments from a dataset, with options as Ax passes them.

        Args:
            training_data: Inputs, observations and, where known, their variances.
            forgetting: See the class, as for all that follow.
            time_dim: Column of time.
            now: Present time.
            spatial_module: Kernel over the other columns.
            learn_forgetting: Whether fitting changes the forgetting.
        """
        return {
            **super().construct_inputs(training_data),
            "forgetting": forgetting,
            "time_dim": time_dim,
            "now": now,
            "spatial_module": spatial_module,
            "learn_forgetting": learn_forgetting,
        }

    def subset_output(self, idcs: list[int]) -> Self:
        """The model of a subset of the outputs.

        Args:
            idcs: Indices of the outputs.
        """
        subset = super().subset_output(idcs)
        if subset.train_inputs[0].dim() != self.train_inputs[0].dim() or len(idcs) > 1:
            subset_batch_shapes(self, subset)
        chosen: Any = idcs if len(idcs) > 1 else idcs[0]
        if self.num_outputs > 1 and isinstance(self.likelihood, AgeNoiseLikelihood):
            rows = self.likelihood.noise_covar.row_noise
            if rows is not None:
                subset.likelihood.noise_covar.row_noise = rows[..., chosen, :]
        if self.num_outputs > 1 and self._row_noise is not None:
            rows = self._row_noise.expand(*self.train_targets.shape)
            subset._row_noise = rows[..., chosen, :]
        subset._tell_likelihood(subset.train_inputs[0])
        return subset  # type: ignore[no-any-return]


def _samples_at(
    times: Tensor,
    now: Tensor,
    draw: Callable[[Size, Tensor], Tensor],
    sample_shape: Size,
    base_samples: Tensor,
) -> Tensor:
    """What ``draw`` gives, with a warning where some of ``times`` lie before ``now``.

    Functions of BoTorch that compare settings by samples, such as ``prune_inferior_points`` and
    ``qLogNoisyExpectedImprovement``, know no time; all of them draw by a sampler.
    """
    past = times < now.unsqueeze(-1)
    if bool(past.any()):
        warnings.warn(
            f"samples are drawn of values at time {times[past][0].item():g}, but now is "
            f"{now.max().item():g}, when values are others; give points of a baseline, or those to "
            "prune, the present as their time, or take qLogNoisyExpectedImprovementAtPresent, "
            "which does.",
            InputDataWarning,
            stacklevel=3,
        )
    return draw(sample_shape, base_samples)


def _separated(
    forgetting: Forgetting,
    covar_module: Kernel | None,
    spatial_module: Kernel | None,
    likelihood: Likelihood | None,
) -> tuple[Decay | None, Inflation | None]:
    """The decay and the inflation; raises if other arguments already define them."""
    decay, inflation = separate(forgetting)
    require(
        covar_module is None or (decay is None and spatial_module is None),
        "covar_module is a kernel over all columns, so it leaves no place for a decay or a "
        "spatial_module; pass the kernel over the columns other than time as spatial_module.",
    )
    require(
        likelihood is None or inflation is None,
        "likelihood and an inflation in forgetting both say how noise grows; give one of them.",
    )
    return decay, inflation


def _checked_time(
    train_X: Tensor,
    train_Y: Tensor,
    train_Yvar: Tensor | None,
    input_transform: InputTransform | None,
    time_dim: int,
) -> int:
    """The index of the time column; raises unless the data can be trained on."""
    time = column_of_time(train_X, time_dim)
    check_outputs(train_X, train_Y, train_Yvar)
    check_times(train_X[..., time])
    check_magnitude("train_X", train_X)
    check_magnitude("train_Y", train_Y)
    if input_transform is not None and train_X.shape[-2]:
        check_transform(input_transform, train_X, time)
    return time
