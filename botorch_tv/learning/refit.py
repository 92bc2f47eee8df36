"""Which hyperparameters are learned, and how often."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from botorch.utils.types import DEFAULT, _DefaultType
from torch.distributions import Distribution

from botorch_tv.forgetting import Decay
from botorch_tv.validation import require, settle_integer


@dataclass(frozen=True)
class Free:
    """A hyperparameter that is learned.

    Args:
        prior: Distribution of the hyperparameter, not of its logarithm, from PyTorch or
            ``gpytorch.priors``; None for maximum likelihood. See :class:`Refit` for the defaults.
        lower: Lower bound; the hyperparameter's default if None.
        upper: Upper bound; the hyperparameter's default if None.

    Raises:
        ValueError: If the bounds do not satisfy 0 <= lower < upper.
    """

    prior: Distribution | _DefaultType | None = DEFAULT
    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        lower = 0.0 if self.lower is None else self.lower
        upper = math.inf if self.upper is None else self.upper
        require(
            0 <= lower < upper,
            f"Free: bounds are {self.lower} and {self.upper}, but they must satisfy 0 <= lower < "
            "upper, because hyperparameters cannot be negative.",
        )


@dataclass(frozen=True, kw_only=True)
class Refit:
    """Refit hyperparameters every few rounds, separately for each loop of a batch.

    A fit maximises the posterior density of the hyperparameters: the marginal likelihood of the
    observations that a loop retains, [B16] (24), times the priors. One search starts from the last
    result and another from the given values; the better optimum is used.

    The strategies' theoretical guarantees assume the true hyperparameters and do not hold for
    learned hyperparameters. Confidence bands may cover the objective with a probability below 1 -
    delta. The event trigger may reset more often than delta_B allows or, if noise is overestimated,
    never. Under learned hyperparameters, the regret bounds do not hold.

    Default priors are relative to the extent of the domain, or assume the unit cube:

    - lengthscale: the kernel's prior if it has one, otherwise a log-normal prior. The log-normal
      prior has the median 0.2 √d, and the logarithm of the lengthscale has standard deviation 0.75.
      The median is shorter than BoTorch's 4.1 √d, because a long lengthscale stops exploration, and
      because the observations of a bandit concentrate around the optimum and cannot rule out a long
      lengthscale;
    - output scale, for a ``ScaleKernel``: the kernel's prior if it has one, otherwise a log-normal
      prior. The median of the log-normal prior is the given output scale, because outcomes are not
      standardised. The logarithm of the output scale has standard deviation 1;
    - noise: BoTorch's log-normal prior of the noise variance. The median is e⁻⁴ times the kernel's
      variance, and the logarithm of the noise variance has standard deviation 1;
    - parameters of a decay: the declared prior of each parameter. For ε and σ_w² the prior is
      half-normal with scale 0.25, which is flat near 0 and includes 0. Default priors refer to
      values per median time between a loop's observations; a prior that you give refers to values
      per unit of time. ``Free(prior=None)`` fits ε by maximum likelihood.

    Args:
        every: Rounds between fits, at least 1.
        least: Minimum number of retained observations for a fit, at least 1.
        lengthscale: Prior and bounds of the kernel's lengthscale, or of the lengthscale of each
            column if the kernel has several; None to fix the given lengthscales.
        outputscale: Prior and bounds of a ``ScaleKernel``'s output scale; None to fix it.
        noise: Prior and bounds of the noise variance σ² of a new observation; None to fix it.
        epsilon: Prior and bounds of ``Markov``'s rate of change, by default from 0 to 0.999 per
            median time between observations; None to fix it.
        sigma_w2: Prior and bounds of ``Wiener``'s rate of growth; None to fix it.
        decay: For a decay other than ``Markov`` and ``Wiener``: a dict from the declared name of a
            parameter to the parameter's prior and bounds, or to None to fix the parameter. Unlisted
            parameters are learned under their declared priors. If ``decay`` is None, all
            parameters of the decay are fixed.
        evaluations: Largest number of evaluations of the posterior density per fit.

    Raises:
        ValueError: If a number is out of range, or if all hyperparameters are fixed.
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
            "Refit: all hyperparameters are fixed; set at least one of them to Free().",
        )
        require(
            self.epsilon is None or (self.epsilon.upper or 0) < 1,
            f"Refit: the upper bound of epsilon is {self.epsilon.upper if self.epsilon else None}, "
            "but it must be below 1, because with epsilon 1 no observation carries information; "
            "0.999 is the default.",
        )

    def of_decay(self, decay: Decay) -> dict[str, Free | None]:
        """How each declared parameter of a decay is learned; None for fixed parameters.

        Args:
            decay: The decay.

        Raises:
            ValueError: If the decay declares no parameters, or if ``Refit.decay`` lists a parameter
                that the given decay does not declare.
        """
        own = self.decay or {}
        undeclared = [name for name in own if name not in decay.parameters]
        require(
            not undeclared,
            f"Refit: decay has {undeclared}, but {decay!r} declares "
            f"{list(decay.parameters) or 'no parameters'}; use names that it declares.",
        )
        require(
            bool(decay.parameters) or decay.is_static or self.decay is None,
            f"{decay!r} declares no parameters to learn; declare them in its class attribute "
            "parameters, or pass Refit(decay=None) to fix the decay.",
        )
        default = None if self.decay is None else Free()
        given = {"epsilon": self.epsilon, "sigma_w2": self.sigma_w2, **own}
        return {name: given.get(name, default) for name in decay.parameters}

    def due(self, rounds: int) -> bool:
        """Whether a fit is due after a number of rounds.

        Args:
            rounds: Number of rounds with observations.
        """
        return rounds > 0 and rounds % self.every == 0
