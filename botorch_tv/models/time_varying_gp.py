"""A drop-in replacement for ``SingleTaskGP``, for an objective that changes with time.

Standardised data have variance 1, but a few dozen observations of a slow drift show only a part of
the objective's variation. If the prior variance is fixed at 1, a fit to a few dozen observations
finds a rate of change that is several times too high. Therefore the default kernel also learns an
output scale. The priors of scale, noise and rate (``RatePrior``) were chosen on simulated data by
``benchmarks/statistics/recovery_of_rate.py``, and validated on other data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import InputTransform
from botorch.models.transforms.outcome import OutcomeTransform, Standardize
from botorch.models.utils import validate_input_scaling
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.posteriors import Posterior
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood, Likelihood
from gpytorch.means import Mean
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_tv.forgetting import Decay, Inflation, Markov, Static
from botorch_tv.forgetting.base import median_gap
from botorch_tv.kernels import DecayKernel, MarkovKernel, SpatioTemporalKernel, WienerKernel
from botorch_tv.kernels.declared import Declared
from botorch_tv.likelihoods import AgeNoiseLikelihood, Aging
from botorch_tv.likelihoods.age_noise import SMALLEST_LEARNED_NOISE
from botorch_tv.models.aging_gp import AgingGP
from botorch_tv.models.growing_gp import check_honoured
from botorch_tv.models.training_data import (
    check_data,
    check_inputs,
    check_now,
    check_rows,
    check_transform,
    column_of_time,
    warn_of_no_time,
    warn_of_small_outputs,
)
from botorch_tv.validation import require

SCALE_MODE, SCALE_SPREAD = 3.5, 0.7
"""Prior of the output scale of standardised data: mode, and standard deviation of the logarithm."""
NOISE_MODE, NOISE_SPREAD = math.exp(-4.0), 1.5
"""Prior of the noise variance if the output scale is learned: mode, and standard deviation of the
logarithm. Under BoTorch's prior (e⁻⁵ and 1), a fit attributes more of the noise to drift."""


def _log_normal(mode: float, spread: float) -> LogNormalPrior:
    return LogNormalPrior(math.log(mode) + spread**2, spread)


def batched_parameters(model: AgingGP, own_mean: bool) -> dict[str, int]:
    """The parameters and buffers that have an output dimension, and the index of this dimension.

    Args:
        model: The model; the last dimension of its batch shape indexes the outputs.
        own_mean: Whether the caller supplied the mean module; such a module is not examined.
    """
    outputs = model._aug_batch_shape
    found: dict[str, int] = {} if own_mean else {"mean_module.raw_constant": -1}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        part = name.split(".")[0]
        if part == "likelihood" and tensor.dim() and tensor.shape[:-1] == outputs:
            found[name] = -2
        elif part == "covar_module" and tensor.shape[: len(outputs)] == outputs:
            found[name] = len(outputs) - 1 - tensor.dim()
    return {name: dim for name, dim in found.items() if not name.endswith("active_dims")}


def subset_batch_shapes(old: AgingGP, new: AgingGP) -> None:
    """After the selection of some outputs, correct the batch shapes of kernels.

    BoTorch removes a dimension from a kernel's batch shape once per parameter of the kernel,
    instead of once in total.

    Args:
        old: The model of all outputs.
        new: The model of the selected outputs, with the parameters of these outputs.
    """
    for before, after in zip(old.covar_module.modules(), new.covar_module.modules()):
        if isinstance(before, Kernel) and before._batch_shape == old._aug_batch_shape:
            after.batch_shape = torch.Size(new._aug_batch_shape)


Forgetting = Decay | Inflation | Sequence[Decay | Inflation] | None


def separate(
    forgetting: Forgetting,
    likelihood: Likelihood | None = None,
    covar_module: Kernel | None = None,
    spatial_module: Kernel | None = None,
) -> tuple[Decay | None, Inflation | None]:
    """Split the argument ``forgetting`` into a decay of covariance and an inflation of noise.

    Raises:
        ValueError: If there are two decays or two inflations; if an entry is neither a decay nor an
            inflation; or if the parts contradict the likelihood or the kernels.
    """
    parts = forgetting if isinstance(forgetting, Sequence) else (forgetting or Static(),)
    moving = [part for part in parts if not getattr(part, "is_static", False)]
    decays = [part for part in moving if isinstance(part, Decay)]
    inflations = [part for part in moving if isinstance(part, Inflation)]
    require(
        all(isinstance(part, Decay | Inflation) for part in parts)
        and max(len(decays), len(inflations)) < 2,
        f"forgetting is {forgetting!r}; give at most one decay (Markov, Wiener, a custom Decay) "
        "and one inflation (ExponentialWeights, UncertaintyInjection, a custom Inflation).",
    )
    require(
        covar_module is None or (not decays and spatial_module is None),
        "covar_module is a kernel over all columns, so it excludes a decay and a spatial_module; "
        "pass a kernel over the columns other than time as spatial_module.",
    )
    require(
        likelihood is None or not inflations,
        "likelihood and an inflation in forgetting both define the noise; give only one.",
    )
    return next(iter(decays), None), next(iter(inflations), None)


def temporal_kernel(
    decay: Decay | None, times: Tensor, batch_shape: torch.Size, learn: bool
) -> DecayKernel | None:
    """The kernel over time that a decay defines, in the dtype of the data.

    Args:
        decay: The decay; None for a static objective.
        times: Times of the training data, `... x n`; the first is the origin of a decay that is
            not stationary.
        batch_shape: Batch shape of the parameters.
        learn: Whether to learn the parameters of the decay under their default priors; if False,
            the parameters are fixed.

    Raises:
        ValueError: If the decay is not a covariance, or has no valid parameters to learn.
    """
    if decay is None:
        return None
    require(
        not learn or bool(decay.parameters),
        f"{decay!r} declares no parameters to learn; declare them in its class attribute "
        "parameters, or pass learn_forgetting=False to fix the decay.",
    )
    # Fixed parameters have no prior, because restarts of a fit draw initial values from every
    # prior.
    prior = DEFAULT if learn else None
    origin = times.amin(-1) if times.shape[-1] else times.new_zeros(times.shape[:-1])
    kernel: DecayKernel
    values: Any = decay  # each process has a parameter of its own
    if decay.process_name == "markov":
        kernel = MarkovKernel(values.epsilon, batch_shape, epsilon_prior=prior)
    elif decay.process_name == "wiener":
        kernel = WienerKernel(values.sigma_w2, origin, batch_shape, sigma_w2_prior=prior)
    else:
        kernel = DecayKernel(decay, origin, batch_shape, unit=median_gap(times), learn=learn)
    kernel = kernel.to(times)
    # Set the values again in the dtype of the data, because the kernel may have rounded them to
    # float32.
    kernel.restart()
    if not learn:
        kernel.requires_grad_(False)
    return kernel


def default_kernel(columns: int, batch_shape: torch.Size, scaled: bool) -> Kernel:
    """BoTorch's default kernel, for the columns other than time.

    Args:
        columns: Number of columns other than time.
        batch_shape: Batch shape of the parameters.
        scaled: Whether to learn an output scale.
    """
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=columns, batch_shape=batch_shape)
    if not scaled:
        return kernel
    return ScaleKernel(
        kernel,
        batch_shape=batch_shape,
        outputscale_prior=_log_normal(SCALE_MODE, SCALE_SPREAD),
        outputscale_constraint=GreaterThan(1e-4, transform=None, initial_value=1.0),
    )


INITIAL_EPSILON = 0.01
"""The default ε: per median time between observations if learned, else per unit of time."""


class TimeVaryingGP(AgingGP):
    """A single-task GP whose observations are discounted with age.

    Time is a column of ``X``, in any unit and with any spacing. A decay of covariance (``Markov``,
    ``Wiener``) describes a drifting objective: time is an input of the kernel, and predictions
    refer to the times in ``X``. An inflation of noise (``ExponentialWeights``,
    ``UncertaintyInjection``) makes noise variances grow with the age of the observation,
    ``now - t``. A decay and an inflation can be combined.

    To optimise the present objective, evaluate the acquisition function at the present time with
    :func:`~botorch_tv.acquisition.present.at_present`, or fix the time column with
    ``optimize_acqf(..., fixed_features={d - 1: now})``.

    For categorical inputs, encode categories as whole numbers and use
    ``spatial_module=RBFKernel(active_dims=[0]) * CategoricalKernel(active_dims=[1])``; optimise
    the acquisition function with ``optimize_acqf_mixed``.

    The priors are those of ``SingleTaskGP``. Therefore scale the spatial columns to the unit cube
    by ``Normalize(d, indices=[...])`` without the time column, and standardise outcomes. If a decay
    is learned from standardised outcomes, the default kernel also has an output scale and the noise
    prior is wider; see :mod:`botorch_tv.models.time_varying_gp`. Rates are learned per median time
    between observations, so time may have any unit.

    Args:
        train_X: Inputs, `batch_shape x n x d`, including the time column.
        train_Y: Observations, `batch_shape x n x m`.
        train_Yvar: Noise variances of the observations at age zero, `batch_shape x n x m`, in the
            squared units of ``train_Y``; if None, a single variance is learned. The outcome
            transform converts variances like BoTorch: ``Standardize`` divides by the variance of
            the outcomes, ``Log`` by the squared observation.
        likelihood: A Gaussian likelihood. The model passes the data and ``now`` to an
            ``AgeNoiseLikelihood``.
        covar_module: A kernel over all columns including time, as in ``SingleTaskGP``; it replaces
            the decay. For a kernel over the columns other than time, use ``spatial_module``.
        mean_module: The prior mean; a learned constant if None.
        outcome_transform: As in ``SingleTaskGP``. The default is ``Standardize``. If
            ``learn_forgetting`` is False, the default is None, because with ``Standardize`` the
            unit of the noise variance and of the kernel variance would differ between datasets.
        input_transform: A transform of the columns other than time.
        forgetting: A decay, an inflation, or a sequence of one decay and one inflation, from
            ``botorch_tv.forgetting`` or custom; fitting starts from their parameter values.
            ``Static()`` to forget nothing. By default ``Markov``, starting from ε = 0.01 per median
            time between observations, unless ``covar_module`` or an ``AgeNoiseLikelihood`` is
            given.
        time_dim: Index of the time column in ``train_X``.
        now: Present time, scalar or `batch_shape`, no earlier than any observation; None to follow
            the newest observation.
        spatial_module: Kernel over the columns other than time; BoTorch's default if None.
        learn_forgetting: Whether fitting learns the parameters of ``forgetting``, such as ε, σ_w²,
            γ, α and κ; otherwise they are fixed and have no priors.

    Raises:
        InputDataError: If an observation is later than ``now``, if a time is not finite, if the
            input transform changes time, if a value is NaN before or after the transforms, or if
            dtypes differ.
        BotorchTensorDimensionError: If shapes do not match.
        ValueError: If ``forgetting`` contradicts the other arguments, or if the class of the
            likelihood overrides ``marginal`` or ``__call__``.

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
    ) -> None:
        time = column_of_time(train_X, time_dim)
        check_rows(train_X, train_Y, train_Yvar)
        check_data(train_X, train_Y, time_dim=time)
        check_transform(input_transform, train_X, time)
        warn_of_no_time(train_X, time)
        warn_of_small_outputs(train_Y)
        decay, inflation = separate(forgetting, likelihood, covar_module, spatial_module)
        aged = isinstance(likelihood, AgeNoiseLikelihood)
        default_decay = forgetting is None and covar_module is None and not aged
        decay = Markov(epsilon=INITIAL_EPSILON) if default_decay else decay
        default_space = covar_module is None and spatial_module is None
        raw = outcome_transform == DEFAULT and not learn_forgetting
        standardized = isinstance(outcome_transform, Standardize | _DefaultType)
        scaled = learn_forgetting and decay is not None and default_space and standardized
        noise_prior = _log_normal(NOISE_MODE, NOISE_SPREAD) if scaled else DEFAULT
        _, batch_shape = self.get_batch_dimensions(train_X, train_Y)
        if covar_module is None:
            require(
                train_X.shape[-1] > 1,
                "train_X has only a time column; append the time of each row to its x, "
                "torch.cat([x, time], -1).",
            )
            if spatial_module is None:
                spatial_module = default_kernel(train_X.shape[-1] - 1, batch_shape, scaled)
            times = train_X[..., time]
            times = times.unsqueeze(-2) if train_Y.shape[-1] > 1 else times
            temporal = temporal_kernel(decay, times, batch_shape, learn_forgetting)
            covar_module = SpatioTemporalKernel(spatial_module, temporal, time_dim=time)
        if scaled and likelihood is None and train_Yvar is None:
            likelihood = GaussianLikelihood(
                noise_prior=noise_prior,
                noise_constraint=GreaterThan(
                    SMALLEST_LEARNED_NOISE, transform=None, initial_value=math.exp(-5.0)
                ),
                batch_shape=batch_shape,
            )
        super().__init__(
            train_X,
            train_Y,
            train_Yvar,
            likelihood=likelihood,
            covar_module=covar_module,
            mean_module=mean_module,
            outcome_transform=None if raw else outcome_transform,
            input_transform=input_transform,
        )
        check_honoured(self)
        self.time_dim = time
        if inflation is not None:
            self._age(inflation, learn_forgetting, noise_prior)
        self.measure()
        if default_decay and learn_forgetting:
            temporal = self.covar_module.temporal
            temporal.set_epsilon_per(temporal.unit, INITIAL_EPSILON)
        if default_space:
            self._warn_of_unscaled(train_X)
        self._subset_batch_dict = batched_parameters(self, own_mean=mean_module is not None)
        if aged and now is None:
            now = self.likelihood.now
        self.set_now(now)

    def _age(
        self, inflation: Inflation, learn: bool, noise_prior: LogNormalPrior | _DefaultType
    ) -> None:
        """Let the noise variances grow with age; given variances are those at age zero."""
        fixed = isinstance(self.likelihood, FixedNoiseGaussianLikelihood)
        aged = AgeNoiseLikelihood(
            inflation if learn else Aging(inflation, learn=False),
            self.time_dim,
            noise=self.likelihood.noise_covar.noise if fixed else None,
            batch_shape=self._aug_batch_shape,
            noise_prior=noise_prior,
        )
        self.likelihood = aged.to(self.train_targets)
        self.likelihood.aging.restart()

    def _warn_of_unscaled(self, X: Tensor) -> None:
        """Warn of unscaled data as BoTorch does for its default kernel, but not of the times."""
        targets = self.train_targets
        with torch.no_grad():
            validate_input_scaling(
                self.transform_inputs(X),
                targets.unsqueeze(-1) if self.num_outputs == 1 else targets.mT,
                ignore_X_dims=[self.time_dim],
            )

    @property
    def forgetting(self) -> Decay | Inflation | tuple[Decay | Inflation, ...]:
        """The model's decay and inflation with their current values, per unit of time.

        The property is a decay or an inflation, such as ``Markov(epsilon=0.027)``; if the model has
        both or neither, the property is a tuple. The property can be passed to another model as
        ``forgetting``. If the model has a batch shape, the parameters of the decay and the
        inflation are tensors, `batch_shape`.

        Raises:
            ValueError: If the unit of time is so long that ε rounds to 1.
        """
        parts = tuple(part.current() for part in self.modules() if isinstance(part, Declared))
        return parts[0] if len(parts) == 1 else parts

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        """The posterior at the times in ``X``.

        BoTorch's samplers warn if they draw values at times before ``now``, because the best
        setting in the past may differ from the present optimum.

        Args:
            X: Inputs including time, `... x q x d`.
            output_indices: Indices of the outputs; all if None.
            observation_noise: True adds the noise variance of an observation made at the times in
                ``X``; for times before ``now``, the noise variance includes its growth with age. A
                tensor, `... x q x m`, contains the variances to add.
            posterior_transform: A transform of the posterior; None for no transform.

        Raises:
            BotorchTensorDimensionError: If the number of columns of ``X`` differs from the training
                data.
        """
        check_inputs(X, self.train_inputs[0].shape[-1])
        found = super().posterior(X, output_indices, observation_noise, posterior_transform)
        kernel = self.covar_module
        if not (isinstance(kernel, SpatioTemporalKernel) and kernel.temporal is None):
            # The method is replaced on the instance, because BoTorch's transforms check the
            # posterior's class.
            times, draw = X[..., self.time_dim].detach(), found.rsample_from_base_samples
            found.rsample_from_base_samples = partial(_samples_at, times, self.now, draw)
        return found

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """A model conditioned on q more observations, in O(n² q).

        The result equals a model built from all data with the same parameters. If noise grows with
        age, a later observation changes the noise of all earlier observations, and the factor is
        recomputed in O(n³). :meth:`set_now` fixes the present time, which avoids the recomputation.

        Args:
            X: Inputs including time, `batch_shape x q x d`.
            Y: Observations, `batch_shape' x q x m`, in the units of ``train_Y``.
            noise: Noise variances of the observations at age zero, shape of ``Y``; see
                :meth:`GrowingGP.condition_on_observations` for the default.

        Returns:
            A new model; ``self`` is unchanged.

        Raises:
            BotorchTensorDimensionError: If ``X``, ``Y`` and ``noise`` have different numbers of
                rows, or numbers of columns that differ from the training data.
            InputDataError: If an observation is later than the ``now`` that was set, if dtypes
                differ, or if a value is NaN.
            RuntimeError: If batch shapes do not broadcast.
        """
        check_data(X, Y, columns=self.train_inputs[0].shape[-1], time_dim=self.time_dim)
        if self._now is not None and X.shape[-2]:
            check_now(self._now, X[..., self.time_dim].amax(-1))
        return super().condition_on_observations(X, Y, noise)

    @classmethod
    def construct_inputs(cls, training_data: SupervisedDataset, **options: Any) -> dict[str, Any]:
        """Arguments of the constructor, made from a dataset and options; Ax calls this method.

        Args:
            training_data: Inputs and observations, optionally with noise variances.
            options: Further arguments of the constructor.
        """
        return {**super().construct_inputs(training_data), **options}

    def subset_output(self, idcs: list[int]) -> Self:
        """A model of a subset of the outputs.

        Args:
            idcs: Indices of the outputs.
        """
        subset = super().subset_output(idcs)
        if subset.train_inputs[0].dim() != self.train_inputs[0].dim() or len(idcs) > 1:
            subset_batch_shapes(self, subset)
        chosen: Any = idcs if len(idcs) > 1 else idcs[0]
        if self.num_outputs > 1 and self._aged is not None and self._aged.row_noise is not None:
            subset._aged.row_noise = self._aged.row_noise[..., chosen, :]
        if self.num_outputs > 1 and self._row_noise is not None:
            rows = self._row_noise.expand(*self.train_targets.shape)
            subset._row_noise = rows[..., chosen, :]
        if self.num_outputs > 1 and self._original_train_inputs is not None:
            subset._original_train_inputs = self._original_train_inputs[..., chosen, :, :]
        subset._update_likelihood(subset.train_inputs[0])
        return subset


def _samples_at(
    times: Tensor,
    now: Tensor,
    draw: Callable[[Size, Tensor], Tensor],
    sample_shape: Size,
    base_samples: Tensor,
) -> Tensor:
    """Return samples from ``draw``; warn if some of ``times`` lie before ``now``.

    Functions of BoTorch that compare settings by samples, such as ``prune_inferior_points`` and
    ``qLogNoisyExpectedImprovement``, ignore time.
    """
    past = times < now.unsqueeze(-1)
    if bool(past.any()):
        warnings.warn(
            f"samples are drawn at time {times[past][0].item():g}, but now is "
            f"{now.max().item():g}; give all compared points the present time by "
            "points_at_present, or use a function such as qLogNoisyExpectedImprovementAtPresent.",
            InputDataWarning,
            stacklevel=3,
        )
    return draw(sample_shape, base_samples)
