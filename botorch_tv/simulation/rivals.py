"""The bandits that meet in a comparison, by the short names of the command line."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.experts import sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.strategies import (
    Strategy,
    br_gp_ucb,
    et_gp_ucb,
    gp_ei,
    gp_pi,
    gp_ts,
    gp_ucb,
    igp_ucb,
    r_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)
from botorch_tv.validation import require, require_number

SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
KERNELS = ("se", *SMOOTHNESS)


def unit_kernel(name: str, lengthscale: float) -> Kernel:
    """An isotropic kernel of variance 1 in float64.

    Args:
        name: One of `KERNELS`.
        lengthscale: In units of the domain, positive.

    Raises:
        ValueError: If the name is unknown or the lengthscale not positive and finite.
    """
    require(name in KERNELS, f"kernel is {name!r}; choose one of {', '.join(KERNELS)}.")
    lengthscale = require_number(
        "lengthscale",
        lengthscale,
        "(0, inf)",
        "it must be positive and finite; 0.2 is usual.",
    )
    kernel = RBFKernel() if name == "se" else MaternKernel(nu=SMOOTHNESS[name])
    kernel = kernel.double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)  # a float turns float32
    return kernel


@dataclass(frozen=True)
class Settings:
    """Everything the strategies of one comparison are built from.

    Args:
        kernel: Covariance over the domain.
        noise: Variance of the observation noise.
        epsilon: Rate of change that TV-GP-UCB is told.
        sigma_w2: Variance that UI-TVBO adds per unit of time, in units of the kernel's.
        period: Rounds N after which R-GP-UCB and BR-GP-UCB forget.
        window: Rounds W that SW-GP-UCB remembers.
        gamma: Discount γ of WGP-UCB, in (0, 1].
        alpha: Exponent α of the age in UI-GP-UCB and W-SparQ-GP-UCB.
        delta: Chance δ_B of a false alarm of ET-GP-UCB.
        width: Exploration of all but IGP-UCB and BR-GP-UCB, which differ from GP-UCB and R-GP-UCB
            by their own, that of the information gain, and those that do without.
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
    width: Logarithmic


class Rival(NamedTuple):
    """The name of an algorithm in its paper, and how it is made."""

    label: str
    make: Callable[[Settings], Strategy]


RIVALS = {
    "GP": Rival("GP-UCB", lambda s: gp_ucb(kernel=s.kernel, noise=s.noise, width=s.width)),
    "IGP": Rival("IGP-UCB", lambda s: igp_ucb(kernel=s.kernel, noise=s.noise)),
    "R": Rival(
        "R-GP-UCB",
        lambda s: r_gp_ucb(kernel=s.kernel, noise=s.noise, period=s.period, width=s.width),
    ),
    "BR": Rival("BR-GP-UCB", lambda s: br_gp_ucb(kernel=s.kernel, noise=s.noise, period=s.period)),
    "SW": Rival(
        "SW-GP-UCB",
        lambda s: sw_gp_ucb(kernel=s.kernel, noise=s.noise, window=s.window, width=s.width),
    ),
    "TV": Rival(
        "TV-GP-UCB",
        lambda s: tv_gp_ucb(kernel=s.kernel, noise=s.noise, epsilon=s.epsilon, width=s.width),
    ),
    "UI-TVBO": Rival(
        "UI-TVBO",
        lambda s: ui_tvbo(kernel=s.kernel, noise=s.noise, sigma_w2=s.sigma_w2, width=s.width),
    ),
    "WGP": Rival(
        "WGP-UCB",
        lambda s: w_gp_ucb(kernel=s.kernel, noise=s.noise, gamma=s.gamma, width=s.width),
    ),
    "UI": Rival(
        "UI-GP-UCB",
        lambda s: ui_gp_ucb(kernel=s.kernel, noise=s.noise, alpha=s.alpha, width=s.width),
    ),
    "ET": Rival(
        "ET-GP-UCB",
        lambda s: et_gp_ucb(kernel=s.kernel, noise=s.noise, delta=s.delta, width=s.width),
    ),
    # The exact sampler draws from the distribution that the paper's chain approaches, and sooner.
    "SparQ": Rival(
        "SparQ-GP-UCB",
        lambda s: sparq_gp_ucb(kernel=s.kernel, noise=s.noise, steps="exact", width=s.width),
    ),
    "W-SparQ": Rival(
        "W-SparQ-GP-UCB",
        lambda s: w_sparq_gp_ucb(
            kernel=s.kernel, noise=s.noise, alpha=s.alpha, steps="exact", width=s.width
        ),
    ),
    "TS": Rival("GP-TS", lambda s: gp_ts(kernel=s.kernel, noise=s.noise, width=s.width)),
    "EI": Rival("GP-EI", lambda s: gp_ei(kernel=s.kernel, noise=s.noise)),
    "PI": Rival("GP-PI", lambda s: gp_pi(kernel=s.kernel, noise=s.noise)),
    "Random": Rival("Random", lambda s: random_search(kernel=s.kernel, noise=s.noise)),
}


def line_up(names: Sequence[str], settings: Settings) -> dict[str, Strategy]:
    """The strategies of these names, in this order.

    Args:
        names: Short names or the papers' names, in any case: "ET", "et-gp-ucb".
        settings: Their parameters.

    Returns:
        The paper's name of each, to the strategy.

    Raises:
        ValueError: If a name is unknown, with the closest known one; or there is none.
    """
    known = {code.upper(): rival for code, rival in RIVALS.items()}
    known |= {rival.label.upper(): rival for rival in RIVALS.values()}
    wanted = [name.strip().upper() for name in names if name.strip()]
    require(len(wanted) > 0, f"No strategy given; choose from {', '.join(RIVALS)}.")
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ValueError(f"Unknown strategy {name!r}; known: {', '.join(RIVALS)}.{hint}")
    return {known[name].label: known[name].make(settings) for name in wanted}
