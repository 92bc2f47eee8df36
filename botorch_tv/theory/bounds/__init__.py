"""Regret bounds of the five papers, one module per paper."""

from botorch_tv.theory.bounds.bogunovic import (
    r_gp_ucb_regret,
    resetting_mismatch,
    time_varying_gain,
    tv_gp_ucb_regret,
    tv_gp_ucb_regret_by_blocks,
)
from botorch_tv.theory.bounds.bogunovic_orders import (
    markov_lower_bound,
    r_gp_ucb_order,
    tv_gp_ucb_order,
)
from botorch_tv.theory.bounds.brunzema import (
    et_gp_ucb_regret,
    model_mismatch,
    r_gp_ucb_regret_improved,
    reset_time_bound,
)
from botorch_tv.theory.bounds.chowdhury import (
    gp_ts_order,
    gp_ts_regret,
    igp_ucb_order,
    igp_ucb_regret,
    log_decision_set,
)
from botorch_tv.theory.bounds.deng import analysis_memory, w_gp_ucb_order, w_gp_ucb_regret
from botorch_tv.theory.bounds.mauduit import (
    bandit_lower_bound,
    sparq_gp_ucb_order,
    ui_gp_ucb_order,
    w_sparq_gp_ucb_order,
)
from botorch_tv.theory.bounds.shared import largest_constant, smallest_constant

__all__ = [
    "analysis_memory",
    "bandit_lower_bound",
    "et_gp_ucb_regret",
    "gp_ts_order",
    "gp_ts_regret",
    "igp_ucb_order",
    "igp_ucb_regret",
    "largest_constant",
    "log_decision_set",
    "markov_lower_bound",
    "model_mismatch",
    "r_gp_ucb_order",
    "r_gp_ucb_regret",
    "r_gp_ucb_regret_improved",
    "reset_time_bound",
    "resetting_mismatch",
    "smallest_constant",
    "sparq_gp_ucb_order",
    "time_varying_gain",
    "tv_gp_ucb_order",
    "tv_gp_ucb_regret",
    "tv_gp_ucb_regret_by_blocks",
    "ui_gp_ucb_order",
    "w_gp_ucb_order",
    "w_gp_ucb_regret",
    "w_sparq_gp_ucb_order",
]
