"""Inflations of noise as GPyTorch modules, with their parameters to learn."""

from __future__ import annotations

from collections.abc import Mapping

from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.priors import Prior
from torch import Size, Tensor

from botorch_tv.forgetting import ExponentialWeights, Inflation, UncertaintyInjection
from botorch_tv.forgetting.base import is_static, with_values
from botorch_tv.forgetting.claims import require_inflating
from botorch_tv.forgetting.inflation import SMALLEST_GAMMA
from botorch_tv.kernels.declared import Declared, Priors, declared
from botorch_tv.validation import require, require_number

NO_BATCH = Size()


class Aging(Declared):
    """An inflation of noise as a module, with its declared parameters learnable.

    Args:
        inflation: The formula, with the values to start from.
        batch_shape: Batch shape of the parameters.
        priors: Of parameters per unit of the input, by name, None for none; what the inflation
            declares otherwise. For a share kept, such as γ, of 1 - γ.
        names: Names of priors other than that of the parameter with ``_prior``.
        learn: Whether there is anything to learn; the inflation is used as it is else.

    Raises:
        ValueError: If the formula is no inflation, or not one of the parameters it declares.
    """

    def __init__(
        self,
        inflation: Inflation,
        batch_shape: Size = NO_BATCH,
        priors: Priors | None = None,
        names: Mapping[str, str] | None = None,
        learn: bool = True,
    ) -> None:
        require_inflating(inflation)
        super().__init__()
        self.declare(inflation, batch_shape, 1, priors or {}, {}, names, learn=learn)

    @property
    def inflation(self) -> Inflation:
        """The formula, with the values that parameters start from."""
        return self.part  # type: ignore[no-any-return]

    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor on the noise variance; 0 at lag 0.

        Args:
            lag: Lags, `... x n`, at least 0; the leading dimensions broadcast with the batch.
        """
        return with_values(self.inflation, self.learned()).log_factor(lag / self.unit)


class FixedAging(Aging):
    """Any inflation with fixed parameters.

    Args:
        inflation: How noise grows with the lag.
    """

    def __init__(self, inflation: Inflation) -> None:
        super().__init__(inflation, learn=False)


class ExponentialAging(Aging):
    """Noise λ γ^(-lag) with learnable γ, [W22] eq. (2)-(3).

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
        batch_shape: Size = NO_BATCH,
        discount_prior: Prior | _DefaultType | None = DEFAULT,
    ) -> None:
        gamma = require_number(
            "ExponentialAging: gamma", gamma, f"[{SMALLEST_GAMMA}, 1]", "1 forgets nothing."
        )
        names = {"gamma": "discount_prior"}
        super().__init__(ExponentialWeights(gamma), batch_shape, {"gamma": discount_prior}, names)

    gamma = declared("gamma", "Discount γ per unit of time, `batch_shape x 1`.")


class InjectionAging(Aging):
    """Noise σ² (1 + κ lag^α), 0^0 := 0, with learnable α and κ, [M] eq. (8)-(10).

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
        batch_shape: Size = NO_BATCH,
        alpha_prior: Prior | _DefaultType | None = DEFAULT,
        kappa_prior: Prior | _DefaultType | None = DEFAULT,
    ) -> None:
        priors = {"alpha": alpha_prior, "kappa": kappa_prior}
        super().__init__(UncertaintyInjection(alpha, kappa), batch_shape, priors)

    alpha = declared("alpha", "Exponent α of the growth, `batch_shape x 1`.")
    kappa = declared(
        "kappa", "Rate κ of the growth per unit of time to the power α, `batch_shape x 1`."
    )


def learnable(inflation: Inflation, batch_shape: Size) -> Aging:
    """The inflation with its parameters to learn, default priors included.

    Args:
        inflation: Where the parameters start.
        batch_shape: Batch shape of the parameters.

    Raises:
        ValueError: If it declares none.
    """
    if is_static(inflation):
        return FixedAging(inflation)
    require(
        bool(inflation.parameters),
        f"{inflation!r} declares no parameters, so nothing of it can be learned; declare them "
        "beside its formula, or give FixedAging(inflation) to keep it as it is.",
    )
    if type(inflation) is ExponentialWeights:
        return ExponentialAging(inflation.gamma, batch_shape)
    if type(inflation) is UncertaintyInjection:
        return InjectionAging(inflation.alpha, inflation.kappa, batch_shape)
    return Aging(inflation, batch_shape)
