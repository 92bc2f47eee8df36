"""Theoretical results of the papers cited in this library, as functions to call and plot.

The functions compute information gains, regret bounds, and the windows and side queries of [M]. For
a given rate of change, they also compute parameters of a strategy. Functions named ``..._regret``
are bounds with the constants of their theorems or proofs; functions named ``..._order`` are orders
up to a constant factor. Plots are in :mod:`botorch_tv.theory.plots`, which requires matplotlib.

    >>> from botorch_tv.theory import igp_ucb_regret, window_starts
    >>> igp_ucb_regret(100, gain=12.0, B=1.0, R=0.1, delta=0.1)
    tensor(217.3619, dtype=torch.float64)
    >>> window_starts(20, alpha=1.0, alpha_tilde=0.25)
    (1, 3, 5, 7, 9, 11, 13, 15, 17, 20)
"""

from typing import TYPE_CHECKING

from botorch_tv.forgetting.sparq_windows import is_window_start as is_window_start
from botorch_tv.forgetting.sparq_windows import next_window_start as next_window_start
from botorch_tv.forgetting.sparq_windows import window_count as window_count
from botorch_tv.forgetting.sparq_windows import window_starts as window_starts
from botorch_tv.theory.bogunovic import linear_mean_mismatch as linear_mean_mismatch
from botorch_tv.theory.bogunovic import linear_sd_mismatch as linear_sd_mismatch
from botorch_tv.theory.bogunovic import markov_lower_bound as markov_lower_bound
from botorch_tv.theory.bogunovic import r_gp_ucb_order as r_gp_ucb_order
from botorch_tv.theory.bogunovic import r_gp_ucb_regret as r_gp_ucb_regret
from botorch_tv.theory.bogunovic import resetting_mismatch as resetting_mismatch
from botorch_tv.theory.bogunovic import squared_exponential_tails as squared_exponential_tails
from botorch_tv.theory.bogunovic import time_varying_gain as time_varying_gain
from botorch_tv.theory.bogunovic import tv_gp_ucb_order as tv_gp_ucb_order
from botorch_tv.theory.bogunovic import tv_gp_ucb_regret as tv_gp_ucb_regret
from botorch_tv.theory.brunzema import et_gp_ucb_regret as et_gp_ucb_regret
from botorch_tv.theory.brunzema import mean_mismatch as mean_mismatch
from botorch_tv.theory.brunzema import model_mismatch as model_mismatch
from botorch_tv.theory.brunzema import r_gp_ucb_regret_improved as r_gp_ucb_regret_improved
from botorch_tv.theory.brunzema import reset_time_bound as reset_time_bound
from botorch_tv.theory.brunzema import sd_mismatch as sd_mismatch
from botorch_tv.theory.chowdhury import gp_ts_order as gp_ts_order
from botorch_tv.theory.chowdhury import gp_ts_regret as gp_ts_regret
from botorch_tv.theory.chowdhury import igp_ucb_order as igp_ucb_order
from botorch_tv.theory.chowdhury import igp_ucb_regret as igp_ucb_regret
from botorch_tv.theory.chowdhury import linear_order as linear_order
from botorch_tv.theory.chowdhury import log_decision_set as log_decision_set
from botorch_tv.theory.chowdhury import noise_norm as noise_norm
from botorch_tv.theory.chowdhury import noise_norm_bound as noise_norm_bound
from botorch_tv.theory.deng import analysis_memory as analysis_memory
from botorch_tv.theory.deng import quadrature_error as quadrature_error
from botorch_tv.theory.deng import w_gp_ucb_order as w_gp_ucb_order
from botorch_tv.theory.deng import w_gp_ucb_regret as w_gp_ucb_regret
from botorch_tv.theory.horizon import largest_constant as largest_constant
from botorch_tv.theory.horizon import smallest_constant as smallest_constant
from botorch_tv.theory.information_gain import aged_information_gain as aged_information_gain
from botorch_tv.theory.information_gain import (
    closed_form_information_gain as closed_form_information_gain,
)
from botorch_tv.theory.information_gain import discounted_gain_bound as discounted_gain_bound
from botorch_tv.theory.information_gain import exponential_gain_bound as exponential_gain_bound
from botorch_tv.theory.information_gain import greedy_information_gain as greedy_information_gain
from botorch_tv.theory.information_gain import information_gain as information_gain
from botorch_tv.theory.information_gain import linear_gain_bound as linear_gain_bound
from botorch_tv.theory.information_gain import markov_information_gain as markov_information_gain
from botorch_tv.theory.information_gain import matern_exponent as matern_exponent
from botorch_tv.theory.information_gain import polynomial_gain_bound as polynomial_gain_bound
from botorch_tv.theory.information_gain import running_information_gain as running_information_gain
from botorch_tv.theory.information_gain import universal_gain_bound as universal_gain_bound
from botorch_tv.theory.information_gain import (
    weighted_information_gain as weighted_information_gain,
)
from botorch_tv.theory.mauduit import bandit_lower_bound as bandit_lower_bound
from botorch_tv.theory.mauduit import necessary_side_queries as necessary_side_queries
from botorch_tv.theory.mauduit import queries_for_accuracy as queries_for_accuracy
from botorch_tv.theory.mauduit import side_queries as side_queries
from botorch_tv.theory.mauduit import sparq_gp_ucb_order as sparq_gp_ucb_order
from botorch_tv.theory.mauduit import sparq_operations_order as sparq_operations_order
from botorch_tv.theory.mauduit import sparse_posterior_error as sparse_posterior_error
from botorch_tv.theory.mauduit import sufficient_side_queries as sufficient_side_queries
from botorch_tv.theory.mauduit import total_side_queries as total_side_queries
from botorch_tv.theory.mauduit import ui_gp_ucb_order as ui_gp_ucb_order
from botorch_tv.theory.mauduit import w_sparq_gp_ucb_order as w_sparq_gp_ucb_order
from botorch_tv.theory.mauduit import w_sparq_operations_order as w_sparq_operations_order
from botorch_tv.theory.rules import analysis_block as analysis_block
from botorch_tv.theory.rules import budget_period as budget_period
from botorch_tv.theory.rules import discount as discount
from botorch_tv.theory.rules import reset_period as reset_period
from botorch_tv.theory.rules import rexp3_period as rexp3_period

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
