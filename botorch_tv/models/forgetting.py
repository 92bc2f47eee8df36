"""What a model is made of, by the forgetting asked for."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, Likelihood
from gpytorch.priors import Prior
from torch import Tensor
from torch.nn import Module

from botorch_tv.forgetting import Decay, Inflation, Markov, Wiener
from botorch_tv.forgetting.base import is_static, median_gap
from botorch_tv.kernels import DecayKernel, MarkovKernel, WienerKernel
from botorch_tv.kernels.declared import Declared
from botorch_tv.likelihoods import AgeNoiseLikelihood, FixedAging
from botorch_tv.models import defaults
from botorch_tv.validation import require

Forgetting = Decay | Inflation | Sequence[Decay | Inflation] | None


def separate(forgetting: Forgetting) -> tuple[Decay | None, Inflation | None]:
    """The decay of covariance and the inflation of noise among the parts of a forgetting.

    Raises:
        ValueError: If there are two of a kind, or a part is neither.
    """
    parts = () if forgetting is None else forgetting
    parts = parts if isinstance(parts, Sequence) else (parts,)
    decays, inflations = [], []
    for part in parts:
        if is_static(part):
            continue
        require(
            isinstance(part, Decay | Inflation),
            f"forgetting holds {part!r}, but its parts are decays (Markov, Wiener, your own) and "
            "inflations (ExponentialWeights, UncertaintyInjection, your own).",
        )
        if isinstance(part, Decay):
            decays.append(part)
        if isinstance(part, Inflation):
            inflations.append(part)
    for kind, found in (("decay", decays), ("inflation", inflations)):
        if len(found) > 1:
            raise ValueError(
                f"forgetting holds {len(found)} parts of one kind, {found!r}, but takes one {kind} "
                "at most; leave one out."
            )
    return (decays[0] if decays else None), (inflations[0] if inflations else None)


def temporal_kernel(
    decay: Decay | None, times: Tensor, batch_shape: torch.Size, learn: bool
) -> DecayKernel | None:
    """The temporal factor of a decay, its parameters to learn, in the dtype of the data.

    Args:
        decay: The decay; None for an objective that stands still.
        times: Times of the training data, `... x n`; a decay that is not stationary counts from
            the first.
        batch_shape: Batch shape of the parameters.
        learn: Whether these are learned, under their default priors.

    Raises:
        ValueError: If the decay is no covariance, or is to be learned and declares nothing or not
            rightly.
    """
    if decay is None:
        return None
    require(
        not learn or bool(decay.parameters),
        f"{decay!r} declares no parameters, so nothing of it can be learned; declare them beside "
        "its formula, or pass learn_forgetting=False to keep it as it is.",
    )
    prior = DEFAULT if learn else None  # restarts of a fit draw from priors, learned or not
    origin = times.amin(-1) if times.shape[-1] else times.new_zeros(times.shape[:-1])
    kernel: DecayKernel
    if type(decay) is Markov:
        kernel = MarkovKernel(decay.epsilon, batch_shape, epsilon_prior=prior)
    elif type(decay) is Wiener:
        kernel = WienerKernel(decay.sigma_w2, origin, batch_shape, sigma_w2_prior=prior)
    else:
        kernel = DecayKernel(decay, origin, batch_shape, unit=median_gap(times), learn=learn)
    kernel = kernel.to(times)
    # Once more after the module has the data's dtype: 0.03 in float32 is another number.
    kernel.restart()
    if not learn:
        kernel.requires_grad_(False)
    return kernel


def rates(model: Module) -> list[Declared]:
    """The parts of a model that have a rate to learn."""
    return [
        part
        for part in model.modules()
        if isinstance(part, Declared)
        and any(one.requires_grad for one in part.parameters(recurse=False))
    ]


def current(model: Module) -> Decay | Inflation | tuple[Decay | Inflation, ...]:
    """The decay and the inflation of a model with the values they have now.

    Args:
        model: Holds them as modules.

    Returns:
        The part where there is one, a tuple where there are several or none.

    Raises:
        ValueError: See :meth:`Declared.current`.
    """
    parts = tuple(part.current() for part in model.modules() if isinstance(part, Declared))
    return parts[0] if len(parts) == 1 else parts


def age_noise(
    inflation: Inflation,
    time_dim: int,
    plain: Likelihood,
    batch_shape: torch.Size,
    learn: bool,
    noise_prior: Prior | _DefaultType,
) -> AgeNoiseLikelihood:
    """The likelihood of an inflation.

    Args:
        inflation: The inflation.
        time_dim: Column of time.
        plain: Without it; where its variances are known they are those at lag 0, one is learned
            else.
        batch_shape: Batch shape of the parameters.
        learn: Whether those of the inflation are learned, under their default priors.
        noise_prior: Of the variance at lag 0 where it is learned.
    """
    known = isinstance(plain, FixedNoiseGaussianLikelihood)
    return AgeNoiseLikelihood(
        inflation if learn else FixedAging(inflation),
        time_dim,
        noise=plain.noise_covar.noise if known else None,
        batch_shape=batch_shape,
        noise_prior=noise_prior,
        noise_constraint=defaults.noise_bounds(),
    )
