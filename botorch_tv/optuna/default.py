"""Default strategies, which need no prior knowledge of the objective."""

import torch
from gpytorch.kernels import MaternKernel

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import Markov
from botorch_tv.inference.mixture.prior import MOST_COLUMNS
from botorch_tv.learning import Refit
from botorch_tv.strategies import GPStrategy, adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy


def default_strategy(columns: int) -> Strategy:
    """:func:`~botorch_tv.strategies.adaptive_gp_ucb` in up to 20 columns, else one that learns."""
    return adaptive_gp_ucb() if columns <= MOST_COLUMNS else learning_strategy()


def learning_strategy() -> Strategy:
    """A strategy that learns lengthscale, noise and rate of change; values have deviation 1."""
    with torch.device("cpu"):
        kernel = MaternKernel(nu=2.5).double()
        kernel.lengthscale = 0.3
    return GPStrategy(
        kernel=kernel,
        noise=0.1,
        decay=Markov(0.01),
        mean="estimated",
        width=Logarithmic(0.4, 4.0),
        learning=Refit(),
    )
