"""Theoretical results of the papers cited in this library, as functions to call and plot.

The functions compute information gains, regret bounds, and the windows and side queries of [M]. For
a given rate of change, they also compute parameters of a strategy. Functions named ``..._regret``
are bounds with the constants of their theorems or proofs; functions named ``..._order`` are orders
with a free factor ``constant``. Plots are in :mod:`botorch_tv.theory.plots`, which requires
matplotlib.

    >>> from botorch_tv.theory import igp_ucb_regret, window_starts
    >>> igp_ucb_regret(100, gain=12.0, B=1.0, R=0.1, delta=0.1)
    tensor(217.3619, dtype=torch.float64)
    >>> window_starts(20, alpha=1.0, alpha_tilde=0.25)
    (1, 3, 5, 7, 9, 11, 13, 15, 17, 20)
"""

from botorch_tv.forgetting.sparq_windows import (
    is_window_start,
    next_window_start,
    window_count,
    window_starts,
)
from botorch_tv.theory.bogunovic import (
    linear_mean_mismatch,
    linear_sd_mismatch,
    markov_lower_bound,
    r_gp_ucb_order,
    r_gp_ucb_regret,
    resetting_mismatch,
    squared_exponential_tails,
    time_varying_gain,
    tv_gp_ucb_order,
    tv_gp_ucb_regret,
    tv_gp_ucb_regret_by_blocks,
)
from botorch_tv.theory.brunzema import (
    et_gp_ucb_regret,
    mean_mismatch,
    model_mismatch,
    r_gp_ucb_regret_improved,
    reset_time_bound,
    sd_mismatch,
)
from botorch_tv.theory.chowdhury import (
    gp_ts_order,
    gp_ts_regret,
    igp_ucb_order,
    igp_ucb_regret,
    linear_order,
    log_decision_set,
    noise_norm,
    noise_norm_bound,
)
from botorch_tv.theory.deng import (
    analysis_memory,
    quadrature_error,
    w_gp_ucb_order,
    w_gp_ucb_regret,
)
from botorch_tv.theory.horizon import largest_constant, smallest_constant
from botorch_tv.theory.information_gain import (
    aged_information_gain,
    closed_form_information_gain,
    discounted_gain_bound,
    exponential_gain_bound,
    greedy_information_gain,
    information_gain,
    linear_gain_bound,
    markov_information_gain,
    matern_exponent,
    polynomial_gain_bound,
    running_information_gain,
    universal_gain_bound,
    weighted_information_gain,
)
from botorch_tv.theory.mauduit import (
    bandit_lower_bound,
    necessary_side_queries,
    queries_for_accuracy,
    side_queries,
    sparq_gp_ucb_order,
    sparq_operations_order,
    sparse_posterior_error,
    sufficient_side_queries,
    total_side_queries,
    ui_gp_ucb_order,
    w_sparq_gp_ucb_order,
    w_sparq_operations_order,
)
from botorch_tv.theory.rules import (
    analysis_block,
    budget_period,
    discount,
    reset_period,
    rexp3_period,
)

__all__ = [
    "aged_information_gain",
    "analysis_block",
    "analysis_memory",
    "bandit_lower_bound",
    "budget_period",
    "closed_form_information_gain",
    "discount",
    "discounted_gain_bound",
    "et_gp_ucb_regret",
    "exponential_gain_bound",
    "gp_ts_order",
    "gp_ts_regret",
    "greedy_information_gain",
    "igp_ucb_order",
    "igp_ucb_regret",
    "information_gain",
    "is_window_start",
    "largest_constant",
    "linear_gain_bound",
    "linear_mean_mismatch",
    "linear_order",
    "linear_sd_mismatch",
    "log_decision_set",
    "markov_information_gain",
    "markov_lower_bound",
    "matern_exponent",
    "mean_mismatch",
    "model_mismatch",
    "necessary_side_queries",
    "next_window_start",
    "noise_norm",
    "noise_norm_bound",
    "polynomial_gain_bound",
    "quadrature_error",
    "queries_for_accuracy",
    "r_gp_ucb_order",
    "r_gp_ucb_regret",
    "r_gp_ucb_regret_improved",
    "reset_period",
    "reset_time_bound",
    "resetting_mismatch",
    "rexp3_period",
    "running_information_gain",
    "sd_mismatch",
    "side_queries",
    "smallest_constant",
    "sparq_gp_ucb_order",
    "sparq_operations_order",
    "sparse_posterior_error",
    "squared_exponential_tails",
    "sufficient_side_queries",
    "time_varying_gain",
    "total_side_queries",
    "tv_gp_ucb_order",
    "tv_gp_ucb_regret",
    "tv_gp_ucb_regret_by_blocks",
    "ui_gp_ucb_order",
    "universal_gain_bound",
    "w_gp_ucb_order",
    "w_gp_ucb_regret",
    "w_sparq_gp_ucb_order",
    "w_sparq_operations_order",
    "weighted_information_gain",
    "window_count",
    "window_starts",
]
