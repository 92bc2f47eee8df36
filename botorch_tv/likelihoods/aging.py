"""Inflations of noise whose parameters are learned: γ, α and κ as GPyTorch parameters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch import Module
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.priors import HalfNormalPrior, Prior
from torch import Tensor

from botorch_tv.forgetting import ExponentialWeights, Inflation, UncertaintyInjection
from botorch_tv.kernels.batching import like
from botorch_tv.validation import require_bounds, require_number

SMALLEST_GAMMA = 1e-6
DEAF = 0.1
"""γ over a step of the data below which the likelihood knows the newest row alone."""
RESTLESS = 0.9
"""γ over a step of the data from which a search starts instead."""
LARGEST_GROWTH = 13.0
"""The largest -ln γ that a unit of time is chosen for; e^(-13) is above 1e-6."""


class Aging(Module):  # type: ignore[misc]
    """How the noise of an observation grows with its lag, with parameters to learn."""

    unit: Tensor
    """The unit of time that rates are learned in, in units of the input, as the parameters."""

    @abstractmethod
    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor on the noise variance; 0 at lag 0.

        Args:
            lag: Lags, `... x n`, at least 0; the leading dimensions broadcast with the batch.
        """

    def measure(self, unit: Tensor) -> None:
        """Learn rates in another unit of time from now on; their values stay.

        Args:
            unit: In units of the input, positive, `batch_shape`; see ``median_gap``.
        """

    def listen(self, unit: Tensor) -> None:
        """Move rates from which no search finds away to where one does.

        Args:
            unit: The time from one observation to the next, as for :meth:`measure`.
        """

    def _fitting(self, unit: Tensor, raw: Tensor) -> Tensor:
        """A unit for each member of the batch of a raw parameter, in its shape."""
        unit = like(unit, raw)
        shape = raw.shape[:-1]
        if torch.broadcast_shapes(unit.shape, shape) != shape:  # type: ignore[no-untyped-call]
            unit = unit.median()
        return unit.unsqueeze(-1).expand(raw.shape).clone()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        # What was saved without a unit was learned in that of the input.
        for name, own in self.named_buffers(recurse=False):
            if name == "unit":
                state_dict.setdefault(prefix + name, torch.ones_like(own))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    @abstractmethod
    def restart(self) -> None:
        """Set the parameters to where they started, in the dtype they have now.

        A module built in float32 and moved to float64 keeps the rounding of float32; this
        undoes it.
        """


class FixedAging(Aging):
    """Any inflation as it is, with nothing to learn.

    Args:
        inflation: How noise grows with the lag.
    """

    def __init__(self, inflation: Inflation) -> None:
        super().__init__()
        self.inflation = inflation

    def log_factor(self, lag: Tensor) -> Tensor:
        return self.inflation.log_factor(lag)

    def restart(self) -> None:
        """Nothing to set."""


class ExponentialAging(Aging):
    """Noise λ γ^(-lag) with γ to learn, [W22] eq. (2)-(3).

    γ is its own raw parameter in [1e-6, 1], so that γ = 1, which forgets nothing, is exact and has
    a finite gradient.

    Args:
        gamma: Discount γ per unit of time to start from.
        batch_shape: Batch shape of the parameter.
        discount_prior: Prior of 1 - γ per unit of the input, None for none. By default half-normal
            with scale 0.1 in the unit that γ is learned in, see :meth:`measure`.

    Raises:
        ValueError: If ``gamma`` lies outside [1e-6, 1].
    """

    def __init__(
        self,
        gamma: float,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (immutable)
        discount_prior: Prior | _DefaultType | None = DEFAULT,
    ) -> None:
        super().__init__()
        gamma = require_number(
            "ExponentialAging: gamma",
            gamma,
            f"[{SMALLEST_GAMMA}, 1]",
            f"a discount that can be learned lies in [{SMALLEST_GAMMA:g}, 1]; 1 forgets nothing.",
        )
        self.start = gamma
        self.register_parameter("raw_gamma", torch.nn.Parameter(torch.ones(*batch_shape, 1)))
        self.register_constraint("raw_gamma", Interval(SMALLEST_GAMMA, 1.0, transform=None))
        self.register_buffer("unit", torch.ones(*batch_shape, 1))
        own = type(self)
        if discount_prior == DEFAULT:
            self.register_prior(
                "discount_prior", HalfNormalPrior(0.1), own._get_learned, own._set_learned
            )
        elif discount_prior is not None:
            self.register_prior(
                "discount_prior", discount_prior, own._get_discount, own._set_discount
            )
        self.restart()

    @property
    def gamma(self) -> Tensor:
        """Discount γ per unit of time, `batch_shape x 1`."""
        return torch.where(self.unit == 1, self._learned, torch.exp(self._log_gamma))

    @gamma.setter
    def gamma(self, value: Tensor | float) -> None:
        value = like(value, self.raw_gamma)
        bounds = self.raw_gamma_constraint
        fix = "1 forgets nothing."
        require_bounds(
            "ExponentialAging: gamma", value, bounds.lower_bound, bounds.upper_bound, fix
        )
        given = self.unit == 1
        growth = torch.log(value).abs()
        self.unit = torch.where(given, 1.0, torch.minimum(self.unit, LARGEST_GROWTH / growth))
        self._put(torch.where(given, value, torch.exp(-growth * self.unit)))

    def measure(self, unit: Tensor) -> None:
        growth = self._log_gamma.detach().abs()
        # A γ so small that it would be 0 in this unit is learned in a shorter one.
        self.unit = torch.minimum(self._fitting(unit, self.raw_gamma), LARGEST_GROWTH / growth)
        self._put(torch.exp(-growth * self.unit))

    def listen(self, unit: Tensor) -> None:
        step = self._fitting(unit, self.raw_gamma)
        kept = torch.exp(self._log_gamma.detach() * step)
        if bool((kept < DEAF).any()):
            self.unit = step
            self._put(torch.where(kept < DEAF, RESTLESS, kept))

    @property
    def _learned(self) -> Tensor:
        """γ in the unit it is learned in."""
        return self.raw_gamma_constraint.transform(self.raw_gamma)  # type: ignore[no-any-return]

    @property
    def _log_gamma(self) -> Tensor:
        """Ln γ per unit of time."""
        return torch.log(self._learned) / self.unit

    def _put(self, learned: Tensor) -> None:
        constraint = self.raw_gamma_constraint
        learned = learned.clamp(constraint.lower_bound, constraint.upper_bound)
        self.initialize(raw_gamma=constraint.inverse_transform(learned))

    def _get_learned(self) -> Tensor:
        return 1.0 - self._learned

    def _set_learned(self, value: Tensor | float) -> None:
        self._put(1.0 - like(value, self.raw_gamma))

    def _get_discount(self) -> Tensor:
        return 1.0 - self.gamma

    def _set_discount(self, value: Tensor | float) -> None:
        self.gamma = 1.0 - like(value, self.raw_gamma)

    def log_factor(self, lag: Tensor) -> Tensor:
        return -torch.log(self._learned) * (lag / self.unit)

    def restart(self) -> None:
        self.gamma = self.start


class InjectionAging(Aging):
    """Noise σ² (1 + κ lag^α), 0^0 := 0, with α and κ to learn, [M] eq. (8)-(10).

    Args:
        alpha: Exponent α to start from, at least 0.
        kappa: Rate κ to start from, in time^(-α), at least 0.
        batch_shape: Batch shape of the parameters.
        alpha_prior: Prior of α, None for none; half-normal with scale 2 by default.
        kappa_prior: Prior of κ per unit of the input, None for none. By default half-normal with
            scale 2 in the unit that κ is learned in, see :meth:`measure`.
    """

    def __init__(
        self,
        alpha: float,
        kappa: float = 1.0,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (immutable)
        alpha_prior: Prior | _DefaultType | None = DEFAULT,
        kappa_prior: Prior | _DefaultType | None = DEFAULT,
    ) -> None:
        super().__init__()
        self.start = UncertaintyInjection(alpha, kappa)
        for name in ("raw_alpha", "raw_kappa"):
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(*batch_shape, 1)))
            self.register_constraint(name, GreaterThan(0.0, transform=None))
        self.register_buffer("unit", torch.ones(*batch_shape, 1))
        own = type(self)
        learned = (own._get_learned, own._set_learned)
        told = learned if kappa_prior == DEFAULT else (own._get_kappa, own._set_kappa)
        for name, prior, get, put in (
            ("alpha_prior", alpha_prior, own._get_alpha, own._set_alpha),
            ("kappa_prior", kappa_prior, *told),
        ):
            if prior is not None:
                self.register_prior(
                    name, HalfNormalPrior(2.0) if prior == DEFAULT else prior, get, put
                )
        self.restart()

    @property
    def alpha(self) -> Tensor:
        """Exponent α of the growth, `batch_shape x 1`."""
        return self.raw_alpha_constraint.transform(self.raw_alpha)  # type: ignore[no-any-return]

    @alpha.setter
    def alpha(self, value: Tensor | float) -> None:
        self._set_alpha(value)

    @property
    def kappa(self) -> Tensor:
        """Rate κ of the growth per unit of time to the power α, `batch_shape x 1`."""
        return self._get_learned() / self.unit**self.alpha

    @kappa.setter
    def kappa(self, value: Tensor | float) -> None:
        self._set_kappa(value)

    def _get_alpha(self) -> Tensor:
        return self.alpha

    def _get_kappa(self) -> Tensor:
        return self.kappa

    def measure(self, unit: Tensor) -> None:
        kappa = self.kappa.detach()
        self.unit = self._fitting(unit, self.raw_kappa)
        self._set_kappa(kappa)

    def _set_alpha(self, value: Tensor | float) -> None:
        value, kappa = like(value, self.raw_alpha), self.kappa.detach()
        _require_bounds("alpha", value, self.raw_alpha_constraint)
        self.initialize(raw_alpha=self.raw_alpha_constraint.inverse_transform(value))
        self._set_kappa(kappa)  # which is another number in the unit it is learned in

    def _set_kappa(self, value: Tensor | float) -> None:
        self._set_learned(like(value, self.raw_kappa) * self.unit ** self.alpha.detach())

    def _get_learned(self) -> Tensor:
        """κ in the unit it is learned in."""
        return self.raw_kappa_constraint.transform(self.raw_kappa)  # type: ignore[no-any-return]

    def _set_learned(self, value: Tensor | float) -> None:
        value = like(value, self.raw_kappa)
        _require_bounds("kappa", value, self.raw_kappa_constraint)
        self.initialize(raw_kappa=self.raw_kappa_constraint.inverse_transform(value))

    def log_factor(self, lag: Tensor) -> Tensor:
        aged = lag > 0
        # The power is taken of lags above 0 alone: its gradient at 0 is infinite for alpha < 1.
        power = torch.where(aged, lag / self.unit, 1.0) ** self.alpha
        return torch.where(aged, torch.log1p(self._get_learned() * power), 0.0)

    def restart(self) -> None:
        self.alpha, self.kappa = self.start.alpha, self.start.kappa


def _require_bounds(name: str, value: Tensor, bounds: Interval) -> None:
    fix = "alpha = kappa = 1 is usual."
    full = f"InjectionAging: {name}"
    require_bounds(full, value, bounds.lower_bound, bounds.upper_bound, fix)


def learnable(inflation: Inflation, batch_shape: torch.Size) -> Aging:
    """The inflation with its parameters to learn, default priors included.

    Args:
        inflation: Where the parameters start. An inflation this package does not know is used as
            it is.
        batch_shape: Batch shape of the parameters.
    """
    if isinstance(inflation, ExponentialWeights):
        return ExponentialAging(inflation.gamma, batch_shape)
    if isinstance(inflation, UncertaintyInjection):
        return InjectionAging(inflation.alpha, inflation.kappa, batch_shape)
    return FixedAging(inflation)
