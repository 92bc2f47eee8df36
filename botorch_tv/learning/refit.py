"""Which hyperparameters are learned, and how often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from botorch.utils.types import DEFAULT, _DefaultType
from torch.distributions import Distribution

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import is_static
from botorch_tv.validation import require, settle_integer

Prior = Distribution
"""A distribution of PyTorch, those of ``gpytorch.priors`` included."""


@dataclass(frozen=True)
class Free:
    """A hyperparameter that is learned.

    Args:
        prior: Distribution of the hyperparameter itself, not of its logarithm, from PyTorch or
            ``gpytorch.priors``; None for maximum likelihood. See :class:`Refit` for the defaults.
        lower: Lower bound; the hyperparameter's default if None.
        upper: Upper bound; the hyperparameter's default if None.

    Raises:
        ValueError: If the bounds are not in order.
    """

    prior: Prior | _DefaultType | None = DEFAULT
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        lower = 0.0 if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        require(
            0 <= lower < upper,
            f"Free: bounds are {self.lower} and {self.upper}, but hyperparameters are not negative "
            "and need room; give 0 <= lower < upper.",
        )


@dataclass(frozen=True, kw_only=True)
class Refit:
    """Refit hyperparameters every few rounds, each loop of a batch to its own data.

    Maximises the posterior density of the hyperparameters: the marginal likelihood of the
    observations that a loop retains, [B16] (24), times the priors. One search starts from the last
    result and one from the given values; the better optimum is used.

    Guarantees are proved for known hyperparameters and do not hold for learned ones: bands may
    cover less than 1 - delta, the event trigger may fire more often than delta_B allows or, where
    noise is overestimated, not at all, and regret bounds are void.

    Default priors are relative to the extent of the domain, or assume the unit cube:

    - lengthscale: the prior that the kernel has, else log-normal with median 0.2 √d and deviation
      0.75 of the logarithm. The median of BoTorch's is 4.1 √d. A bandit's data cluster around one
      optimum and cannot contradict a long lengthscale, which then stops exploration: in 100 rounds
      of a Markov world with lengthscale 0.2, TV-GP-UCB with all hyperparameters learned had
      23 ± 9 % more regret than with the true ones under BoTorch's prior (40 runs), and 5 ± 3 % more
      under this one (80 runs);
    - output scale, for a ``ScaleKernel``: the prior that the kernel has, else log-normal with the
      value given as its median and deviation 1 of the logarithm, because outcomes are not
      standardised here;
    - noise: BoTorch's, log-normal with median e⁻⁴ of the kernel's variance and deviation 1;
    - what a decay declares: the prior it declares. For ε and σ_w² that is
      half-normal with scale 0.25, which is flat near 0 and does not exclude it. In 300
      rounds it moves an ε of 0.1 by 0.0003; in the first few it keeps noise from being mistaken for
      change. Defaults refer to the median time between a loop's observations, whatever the unit of
      time; a prior that you give is per unit of time. ``Free(prior=None)`` fits ε by maximum
      likelihood.

    Args:
        every: Rounds between fits, at least 1.
        least: Minimum number of observations in use before a loop is fitted, at least 1.
        lengthscale: Of the kernel, one per column if it has several; None to keep it fixed.
        outputscale: Of a ``ScaleKernel``; None to keep it fixed.
        noise: Variance σ² of a new observation; None to keep it fixed.
        epsilon: Rate of change of ``Markov``, by default from 0 to 0.999 over the median time
            between observations; None to keep it fixed.
        sigma_w2: Rate of growth of ``Wiener``; None to keep it fixed.
        decay: Parameters of other decays, by their declared names; those not listed are learned
            under their declared priors. None keeps other decays fixed.
        evaluations: Maximum number of evaluations of the posterior per fit.

    Raises:
        ValueError: If a number is out of range or nothing is learned.
    """

    every: int = 5
    least: int = 5
    lengthscale: Free | None = field(default_factory=Free)
    outputscale: Free | None = field(default_factory=Free)
    noise: Free | None = field(default_factory=Free)
    epsilon: Free | None = field(default_factory=Free)
    sigma_w2: Free | None = field(default_factory=Free)
    decay: Mapping[str, Free | None] | None = field(default_factory=dict)
    evaluations: int = 100

    def __post_init__(self) -> None:
        settle_integer(self, "every", 1, "give the rounds between fits.")
        settle_integer(self, "least", 1, "give a number of observations.")
        settle_integer(self, "evaluations", 1, "100 is usual.")
        of_kernel = self.lengthscale or self.outputscale or self.noise
        require(
            any((of_kernel, self.epsilon, self.sigma_w2, *(self.decay or {}).values())),
            "Refit: nothing is learned; leave one hyperparameter free.",
        )
        require(
            self.epsilon is None or (self.epsilon.upper or 0) < 1,
            f"Refit: epsilon goes up to {self.epsilon.upper if self.epsilon else None}, but at 1 "
            "nothing is remembered and nothing learned; 0.999 is the default limit.",
        )

    def of_decay(self, decay: Decay) -> dict[str, Free | None]:
        """How each declared parameter of a decay is learned; None for fixed ones.

        Raises:
            ValueError: If the decay changes and declares none, or not those named.
        """
        own = self.decay or {}
        unknown = [name for name in own if name not in decay.parameters]
        require(
            not unknown,
            f"Refit: decay has {unknown}, but {decay!r} declares "
            f"{list(decay.parameters) or 'no parameters'}; name those to learn.",
        )
        require(
            bool(decay.parameters) or is_static(decay) or self.decay is None,
            f"{decay!r} declares no parameters, so nothing of it can be learned; declare them "
            "beside its formula, or give Refit(decay=None) to keep it as it is.",
        )
        default = None if self.decay is None else Free()
        known = {"epsilon": self.epsilon, "sigma_w2": self.sigma_w2, **own}
        return {name: known.get(name, default) for name in decay.parameters}

    def due(self, told: int) -> bool:
        """Whether a fit is due once ``told`` rounds have been told."""
        return told > 0 and told % self.every == 0
