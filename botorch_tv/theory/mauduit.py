"""Orders of regret under uncertainty injection, with and without an expert, and numbers of side
queries, [M] §2, §3 and §5.

All functions return orders of growth: of regret, or of the number of side queries. The orders hold
for the squared exponential kernel with the confidence width
:class:`botorch_tv.acquisition.Heteroscedastic`. The objective has a bounded norm. Change of the
objective is treated as noise: an observation of age a has noise variance σ²(1 + a^α), Assumption 2;
:class:`botorch_tv.simulation.PowerLawWorld` has such changes. (Example 2.1 prints uniform steps in
(-σ², σ²); its variance σ²(1 + a/3) requires steps in (-σ, σ).) The constants are not specified by
the paper. Orders that bound the regret from above hold with
probability 1 - δ. The paper's γ_T is twice an information gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from botorch_tv.forgetting.sparq_windows import require_alpha_tilde, window_exponent
from botorch_tv.theory.horizon import Rounds, checked, rounds


@checked
def ui_gp_ucb_order(T: Rounds, *, alpha: float, dim: int) -> Tensor:
    """√(d² T^(3α+1) ln^(2(d+1)) T) for GP-UCB without an expert, [M] Proposition 2.2, eq. (13).

    This formula gives the order of the regret, up to a constant. The order is sublinear only if α
    < 1/3.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha: Exponent α of the growth of noise with age, at least 0.
        dim: Dimension d of the domain, at least 1.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return dim * T ** ((3 * alpha + 1) / 2) * T.log() ** (dim + 1)


@checked
def sparq_gp_ucb_order(T: Rounds, *, dim: int, delta: float) -> Tensor:
    """√((ln(1/δ) + d ln^(d+1)(d ln T)) T d ln^(d+1) T), [M] Theorem 3.3, eq. (23).

    SparQ-GP-UCB queries an expert in every round. This formula gives the order of the regret for
    any α, up to a constant.

    Args:
        T: Number T of rounds, at least e^(1/d), so that d ln T >= 1; a scalar or a tensor of any
            shape.
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the order does not hold, in (0, 1).

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    T = rounds(T, math.ceil(math.exp(1 / dim)))
    log = T.log()
    asked = dim * (dim * log).log() ** (dim + 1)
    return ((asked - math.log(delta)) * T * dim * log ** (dim + 1)).sqrt()


@checked
def w_sparq_gp_ucb_order(T: Rounds, *, alpha_tilde: float, dim: int, delta: float) -> Tensor:
    """√(T^(2α~+1) d ln^(d+1) T (ln(1/δ) + d T^α~ ln^(d+1) T)), [M] Theorem 3.10, eq. (34).

    W-SparQ-GP-UCB queries an expert at window starts. This formula gives the order of the regret
    for any α, up to a constant. The printed equation (34) lacks the square root, but the proof
    and Table 2 contain the root.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha_tilde: Exponent α~ as in :func:`botorch_tv.theory.next_window_start`, in [0, 1/3).
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the order does not hold, in (0, 1).

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    require_alpha_tilde(alpha_tilde)
    gain = dim * T.log() ** (dim + 1)
    risk = gain * T**alpha_tilde - math.log(delta)
    return (T ** (2 * alpha_tilde + 1) * gain * risk).sqrt()


@checked
def sparq_operations_order(T: Rounds, *, dim: int) -> Tensor:
    """T² ln T ln^(3d)(T / ln T) operations of SparQ-GP-UCB in round T, [M] Theorem 3.6.

    This formula gives the order of the number of operations, up to a constant. The number of
    operations of exact GP-UCB has the order T³.

    Args:
        T: Number T of rounds, at least 2; a scalar or a tensor of any shape.
        dim: Dimension d of the domain, at least 1.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    T = rounds(T, 2)
    return T.square() * T.log() * (T / T.log()).log() ** (3 * dim)


@checked
def w_sparq_operations_order(T: Rounds, alpha: float, alpha_tilde: float, dim: int) -> Tensor:
    """T² (ln^d T + T^(α~/α))² operations of W-SparQ-GP-UCB in rounds 1 to T, [M] §3.3.

    This formula gives the order of the total number of operations, up to a constant. The total of
    exact GP-UCB has the order T⁴.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha: Exponent α as in :func:`botorch_tv.theory.next_window_start`.
        alpha_tilde: Exponent α~ as in :func:`botorch_tv.theory.next_window_start`.
        dim: Dimension d of the domain, at least 1.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    longest = T ** float(window_exponent(alpha, alpha_tilde))
    return T.square() * (T.log() ** dim + longest).square()


@checked
def bandit_lower_bound(T: Rounds, *, alpha: float) -> Tensor:
    """√(T^(α+1)) for α < 1, else T: least order of regret without an expert, [M] (17)-(18).

    For the worst functions, this formula is a lower bound on the order of the expected regret, up
    to a constant.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha: Exponent α of the growth of noise with age, at least 0.

    Returns:
        The orders of the lower bound, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return T ** ((min(alpha, 1.0) + 1) / 2)


# Side queries to an expert.


@checked
def side_queries(t: int, dim: int, *, constant: float = 1.0) -> int:
    """⌈c_Q ln^d(t + 1)⌉, the maximum number of side queries in round t.

    [M] Proposition 3.2 gives the order O(ln^d t) without a constant; c_Q may be derived as
    ``queries_for_accuracy(...) / math.log(t + 1) ** dim`` for typical points. A strategy makes
    fewer than ⌈c_Q ln^d(t + 1)⌉ side queries if the number of distinct points played, or the rank
    of their kernel matrix, is smaller than this maximum.

    Args:
        t: Round, at least 1.
        dim: Dimension d of the domain, at least 1.
        constant: Factor c_Q in the number of side queries, positive.

    Raises:
        ValueError: If an argument is out of range.
    """
    return math.ceil(constant * math.log(t + 1) ** dim)


def total_side_queries(asking: Iterable[int], dim: int, *, constant: float = 1.0) -> int:
    """Bound Σ_t ⌈c_Q ln^d(t + 1)⌉ on the number N_T of side queries, over rounds t in ``asking``.

    Args:
        asking: The rounds with side queries. SparQ-GP-UCB makes side queries in all rounds,
            ``range(1, T + 1)``; W-SparQ-GP-UCB makes side queries in the rounds of
            :func:`botorch_tv.theory.window_starts`.
        dim: Dimension d of the domain, at least 1.
        constant: Factor c_Q in the number of side queries, positive.

    Raises:
        ValueError: If an argument is out of range.
    """
    return sum(side_queries(t, dim, constant=constant) for t in asking)


@checked
def queries_for_accuracy(covariance: Tensor, noise: float, eta: float) -> int:
    """The least Q with (Q + 1) Σ_{m > Q} λ_m / σ² <= η, so that E[KL] <= η, [M] Prop. 3.2.

    Let P^v be the posterior given observations of f_T at all points, and P^s the approximate
    posterior given Q points, drawn exactly by a Q-DPP. With the eigenvalues λ_m of the kernel
    matrix K in falling order, the proof uses E[KL(P^s ‖ P^v)] <= E[tr(K - U)] / σ², where U is the
    Nyström approximation of K from the Q points, and E[tr(K - U)] <= (Q + 1) Σ_{m > Q} λ_m
    (Belabbas and Wolfe 2009). The first inequality is proved for variational inference, which
    uses all observations (Burt et al. 2019). For a regression on Q answers alone, as in SparQ, it
    does not hold in general: at repeated points the trace is 0, but the answers are fewer.

    Args:
        covariance: Kernel matrix K of all distinct points played, `n x n`.
        noise: Noise variance σ², positive.
        eta: Bound η on the expected Kullback-Leibler divergence in nats, at least 0.

    Returns:
        The number Q of points, at most n.

    Raises:
        ValueError: If ``noise`` or ``eta`` is out of range.
    """
    tails = torch.linalg.eigvalsh(covariance).clamp_min(0).cumsum(0).flip(0)[1:]
    bound = torch.arange(2, len(covariance) + 1, device=tails.device) * tails / noise
    enough = (bound <= eta).tolist()
    return 1 + [*enough, True].index(True)


@checked
def sparse_posterior_error(eta: float) -> tuple[float, float]:
    """√η / √(1 - √(3η)) and √(3η): errors of an approximate posterior, [M] Proposition 3.4.

    If twice the Kullback-Leibler divergence of an approximate posterior Q from the exact posterior
    P is at most η, then |μ_P - μ_Q| <= √η σ_P, which is at most the first number times σ_Q, and
    |1 - σ_Q²/σ_P²| is below the second number, at all points.

    Args:
        eta: Bound η on twice the divergence, in [0, 1/5].

    Returns:
        Two numbers: the largest error of the mean in units of σ_Q, and the largest relative error
        of the variance.

    Raises:
        ValueError: If ``eta`` is out of range.
    """
    relative = math.sqrt(3 * eta)
    return math.sqrt(eta / (1 - relative)), relative


@checked
def necessary_side_queries(T: Rounds, alpha: float) -> Tensor:
    """T^(α/(α+1)): with side queries of at most this order, regret is linear, [M] Theorem 5.3.

    The order holds up to a constant, for α > 1.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha: Exponent α of the growth of noise with age, above 1.

    Returns:
        Total numbers of side queries in rounds 1 to T, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return T ** (alpha / (alpha + 1))


@checked
def sufficient_side_queries(T: Rounds, alpha: float, alpha_tilde: float, dim: int) -> Tensor:
    """T^(1 - α~/α) ln^d T side queries give W-SparQ sublinear regret, [M] Theorem 3.10, Table 2.

    The order holds up to a constant. In Table 2, α~ is 1/4, and the order is
    T^((4α-1)/(4α)) ln^d T.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        alpha: Exponent α as in :func:`botorch_tv.theory.next_window_start`.
        alpha_tilde: Exponent α~ as in :func:`botorch_tv.theory.next_window_start`.
        dim: Dimension d of the domain, at least 1.

    Returns:
        Total numbers of side queries in rounds 1 to T, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return T ** (1 - float(window_exponent(alpha, alpha_tilde))) * T.log() ** dim
