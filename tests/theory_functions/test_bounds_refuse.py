"""Arguments outside the assumptions of a theorem: the value, the limit and the fix."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from botorch_tv import theory

SLOPES = {"dim": 2, "delta": 0.2, "r": 1.0, "a1": 1.0, "b1": 4.0}
TAIL = {"a0": 1.0, "b0": 1.0}
RESETTING = SLOPES | TAIL | {"T": 10, "period": 5, "gain": 1, "epsilon": 0.1, "noise": 0.1}
TRIGGERED = {**RESETTING, "block": 5}
del TRIGGERED["period"]
MOVING = SLOPES | {"T": 10, "gain": 1, "noise": 0.1}
BLOCKS = MOVING | {"block": 5, "epsilon": 0.1}
IMPROVED = {"T": 10, "gain": 1, "B": 1, "R": 1, "delta": 0.1}
IMPROVED_ORDER = {"T": 10, "gain": 1, "B": 1, "delta": 0.1}
THOMPSON = IMPROVED | {"log_decisions": 3.0}
THOMPSON_ORDER = IMPROVED_ORDER | {"dim": 1}
DECISIONS = {"T": 10, "B": 1, "L": 1, "r": 1, "dim": 1}
WEIGHTED = IMPROVED | {
    "double_gain": 1,
    "budget": 1,
    "gamma": 0.9,
    "noise": 0.5,
    "memory": 3,
    "features": 2,
}
SPARQ = {"T": 10, "dim": 1, "delta": 0.1}

CASES = [
    (theory.r_gp_ucb_regret, RESETTING, {"T": 0}, "T is 0, .* at least 1"),
    (theory.r_gp_ucb_regret, RESETTING, {"T": torch.tensor([3.0, 2.5])}, r"T is 2\.5"),
    (theory.r_gp_ucb_regret, RESETTING, {"T": math.inf}, "T is inf"),
    (theory.r_gp_ucb_regret, RESETTING, {"period": 0}, "period is 0"),
    (theory.r_gp_ucb_regret, RESETTING, {"gain": -1}, "gain is -1, .* docstring"),
    (theory.r_gp_ucb_regret, RESETTING, {"gain": math.nan}, "gain is nan"),
    (theory.r_gp_ucb_regret, RESETTING, {"epsilon": 1.1}, r"epsilon is 1.1, .* \[0, 1\]"),
    (theory.r_gp_ucb_regret, RESETTING, {"noise": 0}, "noise is 0"),
    (theory.r_gp_ucb_regret, RESETTING, {"noise": 2}, "noise is 2"),
    (theory.r_gp_ucb_regret, RESETTING, {"delta": 1}, "delta is 1"),
    (theory.r_gp_ucb_regret, RESETTING, {"dim": 0}, "dim is 0"),
    (theory.r_gp_ucb_regret, RESETTING, {"r": 0}, "r is 0"),
    (theory.r_gp_ucb_regret, RESETTING, {"a0": -1}, "a0 is -1"),
    (theory.r_gp_ucb_regret, RESETTING, {"b0": -1}, "b0 is -1"),
    (theory.r_gp_ucb_regret, RESETTING, {"a1": 1e-9}, "a1 must exceed"),
    (theory.tv_gp_ucb_regret, MOVING, {"noise": -1}, "noise is -1"),
    (theory.tv_gp_ucb_regret, MOVING, {"b1": 0}, "b1 is 0"),
    (theory.tv_gp_ucb_regret_by_blocks, BLOCKS, {"block": 0}, "block is 0"),
    (theory.tv_gp_ucb_regret_by_blocks, BLOCKS, {"block": 11}, "T is 10, .* at least 11"),
    (theory.tv_gp_ucb_regret_by_blocks, BLOCKS, {"epsilon": -0.1}, "epsilon is -0.1"),
    (theory.r_gp_ucb_order, {"T": 10, "epsilon": 0.1}, {"nu": 1.5, "dim": 1}, "nu is 1.5"),
    (theory.tv_gp_ucb_order, {"T": 10, "epsilon": 0.1}, {"nu": 2.5}, "dim is None"),
    (theory.tv_gp_ucb_order, {"T": 10, "epsilon": 0.1}, {"constant": 0}, "constant is 0"),
    (theory.markov_lower_bound, {"T": 10, "epsilon": 0.1}, {"epsilon": 3}, "epsilon is 3"),
    (theory.et_gp_ucb_regret, TRIGGERED, {"block": 0}, "block is 0"),
    (theory.et_gp_ucb_regret, TRIGGERED, {"noise": 0}, "noise is 0"),
    (theory.et_gp_ucb_regret, TRIGGERED, {"epsilon": 2}, "epsilon is 2"),
    (theory.et_gp_ucb_regret, TRIGGERED, {"delta": 0}, "delta is 0"),
    (theory.r_gp_ucb_regret_improved, RESETTING, {"period": 1.5}, "period is 1.5"),
    (theory.reset_time_bound, {"horizon": 9, "mean": 3, "delta": 0.1}, {"mean": 0}, "mean is 0"),
    (theory.igp_ucb_regret, IMPROVED, {"B": -1}, "B is -1"),
    (theory.igp_ucb_regret, IMPROVED, {"R": -1}, "R is -1"),
    (theory.igp_ucb_regret, IMPROVED, {"delta": 0}, "delta is 0"),
    (theory.igp_ucb_order, IMPROVED_ORDER, {"constant": -1}, "constant is -1"),
    (theory.gp_ts_regret, THOMPSON, {"B": 1e-3}, r"B is 0.001, but the proof needs"),
    (theory.gp_ts_regret, THOMPSON, {"log_decisions": -1.0}, "log_decisions is -1"),
    (theory.gp_ts_order, THOMPSON_ORDER, {"B": 0.05}, r"B d T is 0.5 .* later T"),
    (theory.log_decision_set, DECISIONS, {"L": 0}, "L is 0"),
    (theory.log_decision_set, DECISIONS, {"B": 1e-3}, r"is 0.1 at T = 10, .* raise B"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"noise": 0.3}, "noise is 0.3, but .* 0.398"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"gamma": 1}, "gamma is 1"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"memory": 0}, "memory is 0"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"features": 0}, "features is 0"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"budget": -1}, "budget is -1"),
    (theory.w_gp_ucb_regret, WEIGHTED, {"feature_error": -1}, "feature_error is -1"),
    (theory.w_gp_ucb_order, {"T": 10, "gain": 1}, {"budget": 0}, "budget is 0.* igp_ucb_order"),
    (theory.analysis_memory, {"horizon": 10}, {"gamma": 1}, "gamma is 1"),
    (theory.ui_gp_ucb_order, {"T": 10, "dim": 1}, {"alpha": -1}, "alpha is -1"),
    (theory.sparq_gp_ucb_order, SPARQ, {"T": 2}, "T is 2, .* at least 3"),
    (theory.sparq_gp_ucb_order, SPARQ, {"dim": 0}, "dim is 0"),
    (theory.w_sparq_gp_ucb_order, SPARQ, {"alpha_tilde": 0.34}, "alpha_tilde is 0.34"),
    (theory.w_sparq_gp_ucb_order, SPARQ | {"alpha_tilde": 0.2}, {"delta": 1}, "delta is 1"),
    (theory.bandit_lower_bound, {"T": 10}, {"alpha": math.nan}, "alpha is nan"),
]


@pytest.mark.parametrize(
    ("call", "good", "bad", "message"),
    CASES,
    ids=[f"{call.__name__}-{'-'.join(bad)}" for call, _, bad, _ in CASES],
)
def test_refused(
    call: Callable[..., Tensor], good: dict[str, float], bad: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(**(good | bad))


COMPLETE = [
    partial(theory.r_gp_ucb_regret, **RESETTING),
    partial(theory.r_gp_ucb_regret_improved, **RESETTING),
    partial(theory.et_gp_ucb_regret, **TRIGGERED),
    partial(theory.tv_gp_ucb_regret, **MOVING),
    partial(theory.tv_gp_ucb_regret_by_blocks, **BLOCKS),
    partial(theory.igp_ucb_regret, **IMPROVED),
    partial(theory.igp_ucb_order, **IMPROVED_ORDER),
    partial(theory.gp_ts_regret, **THOMPSON),
    partial(theory.gp_ts_order, **THOMPSON_ORDER),
    partial(theory.log_decision_set, **DECISIONS),
    partial(theory.w_gp_ucb_regret, **WEIGHTED),
    partial(theory.w_sparq_gp_ucb_order, **SPARQ, alpha_tilde=0.2),
    partial(theory.sparq_gp_ucb_order, **SPARQ),
]


@pytest.mark.parametrize("call", COMPLETE, ids=lambda call: call.func.__name__)
def test_what_is_refused_is_the_change_alone(call: Callable[[], Tensor]) -> None:
    assert float(call()) > 0


ROUNDS = torch.arange(1, 6)
LENGTHS = [
    (theory.r_gp_ucb_regret, RESETTING, "gain"),
    (theory.et_gp_ucb_regret, TRIGGERED, "gain"),
    (theory.tv_gp_ucb_regret, MOVING, "gain"),
    (theory.igp_ucb_regret, IMPROVED, "gain"),
    (theory.gp_ts_regret, THOMPSON, "gain"),
    (theory.gp_ts_regret, THOMPSON, "log_decisions"),
    (theory.w_gp_ucb_regret, WEIGHTED, "double_gain"),
    (theory.w_gp_ucb_regret, WEIGHTED, "budget"),
]


@pytest.mark.parametrize(("call", "good", "what"), LENGTHS)
def test_one_value_per_horizon(
    call: Callable[..., Tensor], good: dict[str, float], what: str
) -> None:
    """Gains come with that of no round; bounds begin with the first."""
    given = good | {"T": ROUNDS}
    gain = theory.markov_information_gain(torch.eye(3, dtype=torch.float64), 0.1, 0.1, 5)
    assert call(**(given | {what: gain[1:]})).shape == (5,)
    if what.endswith("gain"):
        with pytest.raises(ValueError, match=f"{what} starts with the value for 0 rounds"):
            call(**(given | {what: gain}))
    with pytest.raises(RuntimeError, match="must match the size"):
        call(**(given | {what: gain[:4]}))
