"""The most information that any set of observations of a size can give, γ_n; in nats.

It stands in every regret bound. Finding it is hard; greedy choice bounds it from both sides.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from botorch_tv.acquisition.gains import ClosedForm, Greedy, WidthContext, greedy_gain
from botorch_tv.theory.arguments import Number, check, rounds


def greedy_information_gain(covariance: Tensor, noise: float, horizon: int) -> Tensor:
    """Upper bounds on γ_0, ..., γ_T for a static objective on finitely many arms.

    The greedy value / (1 - 1/e), see :class:`botorch_tv.acquisition.Greedy`; the greedy value
    itself, a lower bound, is this times 1 - 1/e. Noise that grows with age only lowers the gain,
    so that weighted gains are covered too; for the Markov model see
    :func:`markov_information_gain`.

    Args:
        covariance: Kernel on all pairs of arms, `M x M`.
        noise: Noise variance σ² (λ in [C17]), positive.
        horizon: T, at least 1.

    Returns:
        `T + 1` values, index n for n observations, the first of them 0. Bounds are about 1, ..., T
        rounds: ``igp_ucb_regret(torch.arange(1, T + 1), gain=gain[1:], ...)``.

    Raises:
        InputDataError: If ``covariance`` is no covariance matrix.
        ValueError: If ``noise`` or ``horizon`` is out of range.
    """
    values = Greedy.of(covariance, noise, horizon).values
    return torch.tensor(values, dtype=torch.float64, device=covariance.device)


def markov_information_gain(
    covariance: Tensor, noise: float, epsilon: float, horizon: int
) -> Tensor:
    """Upper bounds on γ~_0, ..., γ~_T of the Markov model, [B16] (14)-(15), over finite arms.

    One arm is played per round, the most uncertain one of f_t; the gain is twice that. Choosing
    greedily in one set after the other reaches half of the maximum of a monotone submodular
    function (Fisher, Nemhauser and Wolsey 1978). Without change (ε = 0)
    :func:`greedy_information_gain` is tighter, and returned.

    Args:
        covariance: Kernel on all pairs of arms, `M x M`.
        noise: Noise variance σ², positive.
        epsilon: Rate of change ε in [0, 1].
        horizon: T, at least 1.

    Returns:
        `T + 1` values in float64, index n for n rounds, the first of them 0. Bounds are about
        1, ..., T rounds: ``tv_gp_ucb_regret(torch.arange(1, T + 1), gain=gain[1:], ...)``.

    Raises:
        InputDataError: If ``covariance`` is no covariance matrix.
        ValueError: If ``noise``, ``epsilon`` or ``horizon`` is out of range.
    """
    name = "markov_information_gain"
    epsilon, noise, horizon = check(name, epsilon=epsilon, noise=noise, horizon=horizon)
    if epsilon == 0:
        return greedy_information_gain(covariance, noise, horizon)
    twice = 2 * greedy_gain(covariance, noise, horizon, epsilon)
    return torch.nn.functional.pad(twice, (1, 0))


def closed_form_information_gain(
    T: Number,
    dim: int,
    kernel: Literal["se", "matern"],
    nu: float | None = None,
    *,
    constant: float = 1.0,
) -> Tensor:
    """The order of γ_T: (ln T)^(d+1) or T^c ln T with c = d(d+1)/(2ν + d(d+1)), [C17] §3.1.

    An order, known up to ``constant``: it is no bound, and ignores lengthscale and noise.

    Args:
        T: Observations, at least 1; any shape.
        dim: Dimension d, at least 1.
        kernel: ``"se"`` or ``"matern"``.
        nu: Smoothness ν of the Matérn kernel; None for ``"se"``.
        constant: Factor on the order, positive.

    Returns:
        The shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    horizons = rounds("closed_form_information_gain", T)
    dim, constant = check("closed_form_information_gain", dim=dim, constant=constant)
    order = ClosedForm(kernel, nu)
    values = [order.value(WidthContext(int(n) + 1, dim)) for n in horizons.flatten().tolist()]
    return constant * torch.tensor(values, dtype=horizons.dtype, device=horizons.device).view(
        horizons.shape
    )


def matern_exponent(nu: float, dim: int) -> float:
    """Exponent c = d(d+1) / (2ν + d(d+1)), the power of T in the order of γ_T for a Matérn kernel.

    Raises:
        ValueError: If ``nu`` is not positive and finite or ``dim`` below 1.
    """
    nu, dim = check("matern_exponent", nu=nu, dim=dim)
    return dim * (dim + 1) / (2 * nu + dim * (dim + 1))
