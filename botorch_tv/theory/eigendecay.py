"""Bounds on weighted information gains from the decay of a kernel's eigenvalues, [W22] §6.

The kernel is Σ c_m φ_m(x) φ_m(x') with eigenvalues c_m in falling order, |k| <= k̄ and
|φ_m| <= ψ (Assumption 1 there). N of the terms are kept; the tail is δ_N = Σ_{m > N} c_m ψ².
"""

from __future__ import annotations

import math

from torch import Tensor

from botorch_tv.theory.arguments import Number, check, rounds
from botorch_tv.validation import require, require_number


def universal_gain_bound(
    T: Number, *, noise: float, terms: int, tail: float, k_bar: float = 1.0
) -> Tensor:
    """γ̇_T <= N/2 ln(1 + k̄T/(λN)) + T δ_N/(2λ), [W22] Theorem 6.

    Holds for any increasing weights, for gains weighted once or twice; so too for none.

    Args:
        T: Observations, at least 1; any shape.
        noise: λ, positive.
        terms: N, at least 1.
        tail: δ_N, at least 0.
        k_bar: k̄, positive.

    Returns:
        The shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    observations = rounds("universal_gain_bound", T)
    check("universal_gain_bound", noise=noise, k_bar=k_bar, terms=terms, tail=tail)
    kept = terms / 2 * (k_bar * observations / (noise * terms)).log1p()
    return kept + observations * tail / (2 * noise)


def discounted_gain_bound(
    *,
    gamma: float,
    noise: float,
    terms: int,
    tail: float,
    k_bar: float = 1.0,
    double: bool = True,
) -> float:
    """γ̄_T <= N/2 ln(1 + k̄/(λN(1 - γ²))) + δ_N/(2λ(1 - γ²)) for weights γ^(-s), [W22] Thm 7.

    It does not depend on T. For gains weighted once, γ takes the place of γ² (Appendix D.2; the
    sentence after Corollary 8 has the two exchanged).

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: λ, positive.
        terms: N, at least 1.
        tail: δ_N, at least 0.
        k_bar: k̄, positive.
        double: Whether weights enter twice.

    Raises:
        ValueError: If an argument is out of range.
    """
    check("discounted_gain_bound", gamma=gamma, noise=noise, k_bar=k_bar, terms=terms, tail=tail)
    lost = noise * _lost(gamma, double)
    return terms / 2 * math.log1p(k_bar / (terms * lost)) + tail / (2 * lost)


def polynomial_gain_bound(
    *,
    gamma: float,
    noise: float,
    C_p: float,
    beta_p: float,
    psi: float = 1.0,
    k_bar: float = 1.0,
    double: bool = True,
) -> float:
    """((C_p ψ²/(λ(1-γ²)))^(1/β_p) L^(-1/β_p) + 1) L, L = ln(1 + k̄/(λ(1-γ²))), [W22] Cor. 8.1.

    For eigenvalues c_m <= C_p m^(-β_p). The proof bounds the tail by C_p ψ² N^(1 - β_p), which
    takes β_p >= 2.

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: λ, positive.
        C_p: Scale of the eigenvalues, positive.
        beta_p: Power of their decay, at least 2.
        psi: ψ, positive.
        k_bar: k̄, positive.
        double: Whether weights enter twice.

    Raises:
        ValueError: If an argument is out of range.
    """
    name = "polynomial_gain_bound"
    check(name, gamma=gamma, noise=noise, k_bar=k_bar, C_p=C_p, psi=psi)
    beta_p = require_number(
        f"{name}: beta_p",
        beta_p,
        "[2, inf)",
        "give discounted_gain_bound the tail of a slower decay.",
    )
    lost = noise * _lost(gamma, double)
    log = math.log1p(k_bar / lost)
    return (math.pow(C_p * psi**2 / (lost * log), 1 / beta_p) + 1) * log


def exponential_gain_bound(
    *,
    gamma: float,
    noise: float,
    C_e1: float,
    C_e2: float,
    psi: float = 1.0,
    k_bar: float = 1.0,
    double: bool = True,
) -> float:
    """((ln(1/(1-γ²)) + ln(C_e1 ψ²/(λ C_e2))) / C_e2 + 1) ln(1 + k̄/(λ(1-γ²))), [W22] Cor. 8.2.

    For eigenvalues c_m <= C_e1 exp(-C_e2 m). The proof keeps N terms, the first bracket / C_e2
    rounded up, so that this must be positive, and the bound itself at least 1.

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: λ, positive.
        C_e1: Scale of the eigenvalues, positive.
        C_e2: Rate of their decay, positive.
        psi: ψ, positive.
        k_bar: k̄, positive.
        double: Whether weights enter twice.

    Raises:
        ValueError: If an argument is out of range, or so large a noise that nothing is learnt.
    """
    name = "exponential_gain_bound"
    check(name, gamma=gamma, noise=noise, k_bar=k_bar, C_e1=C_e1, C_e2=C_e2, psi=psi)
    lost = noise * _lost(gamma, double)
    kept = math.log(C_e1 * psi**2 / (C_e2 * lost)) / C_e2
    log = math.log1p(k_bar / lost)
    require(
        kept > 0 and (kept + 1) * log >= 1,
        f"{name}: noise is {noise}, but with these constants the proof keeps terms only below "
        f"{C_e1 * psi**2 * noise / (C_e2 * lost):.4g} and needs a gain of at least 1 nat "
        f"({(kept + 1) * log:.4g} here); use discounted_gain_bound.",
    )
    return (kept + 1) * log


def _lost(gamma: float, double: bool) -> float:
    return 1 - gamma**2 if double else 1 - gamma
