"""Arguments of the theory: bounds, gains, rules and windows.

More of what bounds refuse is in ``theory/test_bounds.py``.
"""

import pytest
import torch
from bad_input.rows import INF, NAN, Parameter, assert_refuses, table

from botorch_tv import theory

EYE = torch.eye(3, dtype=torch.float64)
WHOLE, AT_LEAST_ONE = (0, -1, 2.5, NAN, INF), "an integer of at least 1"
POSITIVE, RATE, CHANCE = (0, -1.0, NAN, INF), (-0.1, 1.1, NAN), (0.0, 1.0, NAN)
RESETTING = {
    "T": 10,
    "period": 5,
    "gain": 1,
    "epsilon": 0.1,
    "noise": 0.5,
    "delta": 0.1,
    "dim": 1,
    "r": 1,
    "a0": 1,
    "b0": 1,
    "a1": 1,
    "b1": 1,
}


def bound(name):
    return lambda v: theory.r_gp_ucb_regret(**(RESETTING | {name: v}))


NUMBERS = {
    "bound delta": Parameter(bound("delta"), CHANCE, "strictly between 0 and 1", "docstring"),
    "bound epsilon": Parameter(bound("epsilon"), RATE, "must lie in [0, 1]", "docstring"),
    "bound period": Parameter(bound("period"), WHOLE, AT_LEAST_ONE, "docstring"),
    "bound dim": Parameter(bound("dim"), WHOLE, AT_LEAST_ONE, "docstring"),
    "bound a0": Parameter(bound("a0"), (-1.0, NAN, INF), "finite and at least 0", "docstring"),
    "reset_period epsilon": Parameter(
        lambda v: theory.reset_period(v, 10), RATE, "must lie in [0, 1]", "docstring"
    ),
    "reset_period horizon": Parameter(
        lambda v: theory.reset_period(0.1, v), WHOLE, AT_LEAST_ONE, "docstring"
    ),
    "budget_period budget": Parameter(
        lambda v: theory.budget_period(10, v, 1.0),
        POSITIVE,
        "positive and finite",
        "docstring",
    ),
    "discount gain": Parameter(
        lambda v: theory.discount(10, v), POSITIVE, "positive and finite", "docstring"
    ),
    "window start": Parameter(
        lambda v: theory.next_window_start(v, 2.0, 0.25), WHOLE, AT_LEAST_ONE, "rounds count from"
    ),
    "side queries dim": Parameter(
        lambda v: theory.side_queries(3, v), WHOLE, AT_LEAST_ONE, "docstring"
    ),
    "side queries constant": Parameter(
        lambda v: theory.side_queries(3, 1, constant=v),
        POSITIVE,
        "positive and fin",
        "docstring",
    ),
    "necessary alpha": Parameter(
        lambda v: theory.necessary_side_queries(10, v),
        (1.0, NAN),
        "must lie in (1, inf)",
        "docstring",
    ),
    "gain noise": Parameter(
        lambda v: theory.greedy_information_gain(EYE, v, 3),
        (0.0, NAN),
        "be positive",
        "give a var",
    ),
    "gain epsilon": Parameter(
        lambda v: theory.markov_information_gain(EYE, 0.1, v, 3),
        RATE,
        "in [0, 1]",
        "docstring",
    ),
    "closed form dim": Parameter(
        lambda v: theory.closed_form_information_gain(10, v, "se"),
        WHOLE,
        AT_LEAST_ONE,
        "docstring",
    ),
}
HORIZONS = {
    "bound T": Parameter(bound("T"), (0, 2.5, NAN, INF), "of at least 1", "a whole number of"),
    "necessary T": Parameter(
        lambda v: theory.necessary_side_queries(v, 2.0), (0, 2.5), "of at least 1", "a whole number"
    ),
}
ROWS = table(NUMBERS) + [row for row in table(HORIZONS) if "tensor" not in row.id]


@pytest.mark.parametrize("row", ROWS)
def test_refused(row):
    assert_refuses(row)
