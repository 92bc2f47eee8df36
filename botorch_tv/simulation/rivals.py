"""The strategies that a comparison can include, and their short names on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.strategies import Strategy
from botorch_tv.strategies.dpp import Steps
from botorch_tv.strategies.listing import PRESETS, Preset
from botorch_tv.validation import require, require_number

SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("se", *SMOOTHNESS)


def unit_kernel(name: str, *lengthscales: float) -> Kernel:
    """A kernel of variance 1 in float64.

    Args:
        name: One of `KERNELS`.
        lengthscales: One lengthscale for all coordinates, or one for each, in units of the domain;
            positive.

    Raises:
        ValueError: If the name is unknown, or if a lengthscale is not positive and finite.
    """
    require(name in KERNELS, f"kernel is {name!r}; give {', '.join(KERNELS)}.")
    each = [require_number("lengthscale", own, "(0, inf)", "0.2 is usual.") for own in lengthscales]
    options = {"ard_num_dims": len(each) if len(each) > 1 else None}
    with torch.device("cpu"):
        kernel = RBFKernel(**options) if name == "se" else MaternKernel(SMOOTHNESS[name], **options)
    kernel = kernel.double()
    # A Python float would become float32.
    kernel.lengthscale = torch.tensor(each, dtype=torch.float64, device="cpu")
    return kernel


@dataclass(frozen=True)
class Settings:
    """Parameters of the strategies of a comparison.

    Args:
        kernel: Covariance over the domain.
        noise: Variance of the observation noise.
        epsilon: Rate of change assumed by TV-GP-UCB.
        sigma_w2: Variance that UI-TVBO adds per unit of time, divided by the kernel's variance.
        period: Number N of rounds after which R-GP-UCB and BR-GP-UCB reset, and R-PERP and
            RExp3 restart.
        window: Number W of rounds whose observations SW-GP-UCB retains.
        gamma: Discount γ of WGP-UCB, in (0, 1].
        alpha: Exponent α of the age in UI-GP-UCB and W-SparQ-GP-UCB.
        delta: Probability δ of a false trigger of ET-GP-UCB and GLR-GP-UCB.
        width: Width of the confidence bounds, for strategies that take a width; None for the width
            in the paper of each strategy. IGP-UCB and BR-GP-UCB ignore ``width``: they are GP-UCB
            and R-GP-UCB with a width that depends on the information gain.
        chance: Share of rounds in which GLR-GP-UCB explores at random.
        beta: Squared half width of R-PERP's bands; the half width is a number of standard
            deviations.
        epsilons: Rates of change that PE-GP-UCB considers.
        windows: Windows that BOB-GP-UCB chooses from.
        block: Number of rounds for which BOB-GP-UCB uses the same window.
        horizon: Horizon (number of rounds) that BOB-GP-UCB assumes.
        cycle: Length of the cycle that TV-BayesOpt assumes, in units of time.
        cycle_lengthscale: Lengthscale of TV-BayesOpt's periodic kernel.
        low: Value of y that earns the smallest reward in RExp3.
        high: Value of y that earns the largest reward in RExp3.
        steps: How SparQ-GP-UCB and W-SparQ-GP-UCB draw points. In the paper they are drawn by a
            Markov chain; ``"exact"`` draws from the limit distribution of this chain, and is
            faster.
    """

    kernel: Kernel | Tensor
    noise: float
    epsilon: float
    sigma_w2: float
    period: int
    window: int
    gamma: float
    alpha: float
    delta: float
    width: Logarithmic | None
    beta: float = 4.0
    chance: float = 0.05
    epsilons: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1)
    windows: tuple[int, ...] = (4, 8, 16, 29)
    block: int = 29
    horizon: int = 200
    cycle: float = 24.0
    cycle_lengthscale: float = 1.0
    low: float = -3.0
    high: float = 3.0
    steps: Steps = "exact"


def rivals() -> dict[str, Preset]:
    """The presets that a comparison can include, by their short names.

    These are all presets but those with an argument that has no default and no field of
    :class:`Settings`.
    """
    fields = Settings.__dataclass_fields__.keys()
    return {
        entry.names[:2][-1]: entry for entry in PRESETS.values() if set(_needed(entry)) <= fields
    }


def _needed(entry: Preset) -> list[str]:
    """The arguments of a preset that a comparison sets."""
    return [
        name
        for name, argument in inspect.signature(entry.make).parameters.items()
        if argument.default is argument.empty or name in entry.compared
    ]


def line_up(names: Sequence[str], settings: Settings) -> dict[str, Strategy]:
    """The strategies with the given names, in the order of ``names``.

    Args:
        names: Short names of strategies, or their names in the papers, in upper or lower case:
            "ET", "et-gp-ucb".
        settings: The parameters of the strategies.

    Returns:
        The strategies; each key is the name of a strategy in its paper.

    Raises:
        ValueError: If ``names`` is empty or has an unknown name.
    """
    found = {
        name.upper(): entry for code, entry in rivals().items() for name in (code, *entry.names)
    }
    wanted = [name.strip().upper() for name in names if name.strip()]
    require(len(wanted) > 0, f"No strategy given; choose from {', '.join(rivals())}.")
    for name in wanted:
        if name not in found:
            raise ValueError(f"Unknown strategy {name!r}; choose from {', '.join(rivals())}.")
    return {
        entry.names[0]: entry.make(**{name: getattr(settings, name) for name in _needed(entry)})
        for entry in map(found.__getitem__, wanted)
    }
