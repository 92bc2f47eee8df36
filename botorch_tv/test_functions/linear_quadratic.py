"""The cost of static state feedback on a linear system, exactly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.validation import require


def sampled(A: Tensor, B: Tensor, step: float) -> tuple[Tensor, Tensor]:
    """The discrete-time system of ẋ = A x + B u with an input held constant between samples.

    Both matrices are blocks of exp([[A, B], [0, 0]] step).

    Args:
        A: `... x n x n`.
        B: `... x n x m`.
        step: Time between samples, in seconds.
    """
    n, m = B.shape[-2:]
    block = torch.cat([torch.cat([A, B], dim=-1), A.new_zeros(*A.shape[:-2], m, n + m)], dim=-2)
    moved = torch.linalg.matrix_exp(block * step)
    return moved[..., :n, :n], moved[..., :n, n:]


def value_matrix(A: Tensor, S: Tensor) -> Tensor:
    """P with P = AᵀPA + S, by the Kronecker form of the Lyapunov equation, for a stable A.

    Args:
        A: `... x n x n`, spectral radius below 1.
        S: `... x n x n`.
    """
    n = A.shape[-1]
    shape = (A + S).shape
    # Row by row, vec(AᵀPA) = (Aᵀ ⊗ Aᵀ) vec(P).
    product = torch.einsum("...ij,...kl->...ikjl", A.mT, A.mT)
    product = product.reshape(*A.shape[:-2], n * n, n * n)
    identity = torch.eye(n * n, dtype=A.dtype, device=A.device)
    right = S.expand(shape).reshape(*shape[:-2], n * n, 1)
    solved: Tensor = torch.linalg.solve(identity - product, right)
    return solved.reshape(shape)


def average_cost(
    A: Tensor, B: Tensor, gain: Tensor, state_cost: Tensor, force_cost: float, noise: Tensor
) -> Tensor:
    """The long-run mean of xᵀQx + r u² of x_{k+1} = A x_k + B u_k + w_k under u = −gain · x.

    It equals tr(P W), where W is the covariance of w and P the value matrix of the closed loop. It
    is also the expected total cost without noise, from x_0 of mean 0 and covariance W.

    Args:
        A: `... x n x n`.
        B: `... x n x 1`.
        gain: `... x n`.
        state_cost: Q, `n x n`.
        force_cost: r.
        noise: W, `n x n`.

    Returns:
        `...`; infinite where the closed loop is not stable.
    """
    closed = A - B * gain.unsqueeze(-2)
    stable = torch.linalg.eigvals(closed.detach()).abs().amax(-1) < 1
    # For an unstable loop the equation has no meaningful solution. A zero matrix replaces the loop,
    # so that neither the solve nor its gradient meets a singular system.
    closed = torch.where(stable[..., None, None], closed, torch.zeros_like(closed))
    spent = state_cost + force_cost * gain.unsqueeze(-1) * gain.unsqueeze(-2)
    cost = (value_matrix(closed, spent) * noise).sum((-2, -1))
    return torch.where(stable, cost, math.inf)


def optimal_gain(
    A: Tensor, B: Tensor, state_cost: Tensor, force_cost: float, start: Tensor
) -> Tensor:
    """The gain `n` that solves the Riccati equation, best for every noise and first state.

    Newton's method on the equation: evaluate a gain by its Lyapunov equation, then improve it,
    gain ← (r + BᵀPB)⁻¹ BᵀPA. From a stabilising gain it stays stable and converges quadratically.

    Args:
        A: `n x n`.
        B: `n x 1`.
        state_cost: Q, `n x n`.
        force_cost: r.
        start: A stabilising gain, `n`.

    Raises:
        ValueError: If ``start`` does not stabilise the system.
    """
    radius = torch.linalg.eigvals(A - B * start).abs().max().item()
    require(
        radius < 1,
        f"optimal_gain: start {start.tolist()} leaves a spectral radius of {radius}, but it must "
        "be below 1; give a stabilising gain.",
    )
    gain = start
    for _ in range(50):
        P = value_matrix(A - B * gain, state_cost + force_cost * torch.outer(gain, gain))
        better = (B.mT @ P @ A / (force_cost + B.mT @ P @ B)).squeeze(0)
        if bool((better - gain).abs().max() <= 1e-12 * better.abs().max()):
            return better
        gain = better
    return gain
