"""Arguments outside the assumptions of a theorem: the value, the limit and the fix."""

import inspect
import math
import re

import pytest
import torch

from botorch_tv import theory
from botorch_tv.forgetting import ExponentialWeights

COVARIANCE = torch.eye(3, dtype=torch.float64)
GOOD = {
    **{"T": 10, "horizon": 9, "t": 9, "start": 9, "asking": [3], "period": 5, "block": 5, "dim": 2},
    **{"epsilon": 0.1, "gain": 1, "double_gain": 1, "noise": 0.5, "delta": 0.2, "r": 1.0},
    **{"a0": 1.0, "b0": 1.0, "a1": 1.0, "b1": 4.0, "B": 1, "R": 1, "L": 1, "log_decisions": 3.0},
    **{"gamma": 0.9, "budget": 1, "memory": 3, "features": 2, "mean": 3, "terms": 1, "tail": 0},
    **{"alpha": 2.0, "alpha_tilde": 0.25, "C_p": 1, "beta_p": 3, "C_e1": 1, "C_e2": 1},
    **{"covariance": COVARIANCE, "inflation": ExponentialWeights(0.9), "kernel": "se"},
    "lengthscale": 1,
}
TILDE = {"alpha_tilde": [0.0, -0.1, 1 / 3, 0.5, math.nan]}

# Every argument is replaced by one of its bad values at a time.
REFUSED = [
    (theory.r_gp_ucb_regret, {"T": [0, math.inf], "period": [0], "epsilon": [1.1], "delta": [1]}),
    (theory.r_gp_ucb_regret, {"gain": [-1, math.nan], "noise": [0, 2], "dim": [0], "r": [0]}),
    (theory.r_gp_ucb_regret, {"a0": [-1], "b0": [-1]}),
    (theory.r_gp_ucb_regret_improved, {"period": [1.5]}),
    (theory.r_gp_ucb_order, {"nu": [1.5]}),
    (theory.tv_gp_ucb_regret, {"noise": [-1], "b1": [0]}),
    (theory.tv_gp_ucb_regret_by_blocks, {"block": [0], "epsilon": [-0.1]}),
    (theory.tv_gp_ucb_order, {"constant": [0]}),
    (theory.markov_lower_bound, {"epsilon": [3]}),
    (theory.et_gp_ucb_regret, {"block": [0], "noise": [0], "epsilon": [2], "delta": [0]}),
    (theory.reset_time_bound, {"mean": [0]}),
    (theory.igp_ucb_regret, {"B": [-1], "R": [-1], "delta": [0]}),
    (theory.igp_ucb_order, {"constant": [-1]}),
    (theory.gp_ts_regret, {"log_decisions": [-1.0]}),
    (theory.log_decision_set, {"L": [0]}),
    (theory.w_gp_ucb_regret, {"gamma": [1], "memory": [0], "features": [0], "budget": [-1]}),
    (theory.w_gp_ucb_regret, {"feature_error": [-1]}),
    (theory.analysis_memory, {"gamma": [1]}),
    (theory.ui_gp_ucb_order, {"alpha": [-1]}),
    (theory.sparq_gp_ucb_order, {"dim": [0]}),
    (theory.w_sparq_gp_ucb_order, {"alpha_tilde": [0.34], "delta": [1]}),
    (theory.bandit_lower_bound, {"alpha": [math.nan]}),
    (theory.universal_gain_bound, {"terms": [0]}),
    (theory.discounted_gain_bound, {"tail": [-1], "gamma": [1]}),
    (theory.polynomial_gain_bound, {"noise": [0], "beta_p": [1.5]}),
    (theory.exponential_gain_bound, {"k_bar": [math.nan]}),
    (theory.aged_information_gain, {"noise": [-1]}),
    (theory.weighted_information_gain, {"gamma": [1.1, -0.5]}),
    (theory.markov_information_gain, {"epsilon": [1.5], "noise": [0]}),
    (theory.closed_form_information_gain, {"T": [0], "constant": [-1]}),
    (theory.reset_period, {"epsilon": [2], "horizon": [0], "nu": [1.5], "constant": [0]}),
    (theory.budget_period, {"budget": [0]}),
    (theory.discount, {"gain": [-1]}),
    (theory.squared_exponential_tails, {"lengthscale": [0]}),
    (theory.window_starts, {**TILDE, "alpha": [0], "horizon": [0]}),
    (theory.next_window_start, {**TILDE, "start": [0]}),
    (theory.is_window_start, {**TILDE, "t": [2.5]}),
    (theory.sufficient_side_queries, TILDE),
    (theory.necessary_side_queries, {"alpha": [1]}),
    (theory.side_queries, {"constant": [0]}),
    (theory.total_side_queries, {"dim": [0]}),
]
WORDS = [
    (theory.r_gp_ucb_regret, {"T": torch.tensor([3.0, 2.5])}, r"T is 2\.5, .* at least 1"),
    (theory.r_gp_ucb_regret, {"gain": -1}, "gain is -1, .* docstring"),
    (theory.r_gp_ucb_regret, {"a1": 1e-9}, "a1 must exceed"),
    (theory.tv_gp_ucb_regret_by_blocks, {"block": 11}, "T is 10, .* at least 11"),
    (theory.tv_gp_ucb_order, {"nu": 2.5, "dim": None}, "dim is None"),
    (theory.analysis_block, {"nu": 2.5, "dim": None}, "dim is None"),
    (theory.gp_ts_regret, {"B": 1e-3}, r"B is 0.001, but the proof needs"),
    (theory.gp_ts_order, {"B": 0.025}, r"B d T is 0.5 .* later T"),
    (theory.log_decision_set, {"B": 1e-3}, r"is 0.2 at T = 10, .* raise B"),
    (theory.w_gp_ucb_regret, {"noise": 0.3}, "noise is 0.3, but .* 0.398"),
    (theory.w_gp_ucb_order, {"budget": 0}, "budget is 0.* igp_ucb_order"),
    (theory.sparq_gp_ucb_order, {"dim": 1, "T": 2}, "T is 2, .* at least 3"),
    (theory.exponential_gain_bound, {"noise": 100, "gamma": 0.8**0.5}, "noise is 100.* below 5"),
]
SINGLE = [
    (call, {name: value}, re.escape(f"{name} is {value}"))
    for call, bad in REFUSED
    for name, values in bad.items()
    for value in values
]


def good(call) -> dict:
    return {name: GOOD[name] for name in inspect.signature(call).parameters if name in GOOD}


@pytest.mark.parametrize(("call", "bad", "message"), SINGLE + WORDS)
def test_refused_for_the_bad_value_only(call, bad, message) -> None:
    assert call(**good(call)) is not None
    with pytest.raises(ValueError, match=message):
        call(**(good(call) | bad))


def test_smoothness_is_positive() -> None:
    with pytest.raises(ValueError, match="nu is 0"):
        theory.matern_exponent(0, 1)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (theory.r_gp_ucb_regret, "gain"),
        (theory.et_gp_ucb_regret, "gain"),
        (theory.tv_gp_ucb_regret, "gain"),
        (theory.igp_ucb_regret, "gain"),
        (theory.gp_ts_regret, "gain"),
        (theory.gp_ts_regret, "log_decisions"),
        (theory.w_gp_ucb_regret, "double_gain"),
        (theory.w_gp_ucb_regret, "budget"),
    ],
)
def test_a_value_per_horizon(call, what) -> None:
    gain = theory.markov_information_gain(COVARIANCE, 0.1, 0.1, 5)
    given = good(call) | {"T": torch.arange(1, 6)}
    assert call(**(given | {what: gain[1:]})).shape == (5,)
    if what.endswith("gain"):
        with pytest.raises(ValueError, match=f"{what} starts with the value for 0 rounds"):
            call(**(given | {what: gain}))
    with pytest.raises(RuntimeError, match="must match the size"):
        call(**(given | {what: gain[:4]}))
