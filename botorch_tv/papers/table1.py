"""[ET] Table 1: ET-GP-UCB in the experiments of [W22], with less noise and standardised stocks."""

from __future__ import annotations

from functools import partial

import pandas as pd

from botorch_tv.papers import stocks
from botorch_tv.papers.cases import Case
from botorch_tv.papers.deng2022 import DROPPING, FORGETTING, NOT_WORSE, abrupt, case, slow
from botorch_tv.papers.experiment import Experiment, Outcome, Results, draw_panels
from botorch_tv.papers.order import Claim, judge

NOISE = 0.1
PAPER = {
    "abrupt": (704.6, 312.5, 233.2, 298.8, 55.8),
    "slow": (136.0, 153.9, 111.6, 197.0, 86.3),
    "stocks": (11462.3, 45362.2, 17854.9, 11461.3, 2483.8),
}
"""Final regret of IGP-, BR-, SW-, WGP- and ET-GP-UCB."""
_LABELS = ("IGP-UCB", *DROPPING, "WGP-UCB", "ET-GP-UCB")

_CASES: dict[str, Case] = {
    "abrupt": case("abrupt, σ² = 0.1", NOISE, abrupt),
    "slow": case("slow, σ² = 0.1", NOISE, slow),
    "stocks": stocks.case,
}

_CLAIMS = [
    *(Claim("abrupt", "ET-GP-UCB", other, 3.0) for other in ("IGP-UCB", *FORGETTING)),
    Claim("slow", "ET-GP-UCB", "IGP-UCB", NOT_WORSE),
    *(Claim("slow", "ET-GP-UCB", other, 3.0) for other in FORGETTING),
    *(Claim("stocks", "ET-GP-UCB", other, 2.0) for other in ("IGP-UCB", *FORGETTING)),
]


def _judge(results: Results) -> Outcome:
    """The orders, and below them regret beside the paper's."""
    orders = judge(_CLAIMS, results)
    rows = [
        {
            "case": name,
            "strategy": label,
            "here": float(results[name].total_regret(label).mean()),
            "paper": theirs,
        }
        for name, row in PAPER.items()
        for label, theirs in zip(_LABELS, row)
    ]
    return orders._replace(table=pd.concat([orders.table, pd.DataFrame(rows)], ignore_index=True))


TABLE_1 = Experiment(
    id="et-table1",
    title="ET-GP-UCB in the experiments of [W22], with less noise and standardised stocks",
    paper="Regret of ET-GP-UCB 55.8 against 233 to 705 on abrupt changes, 86.3 against 112 to 197 "
    "on a slow one, and 2,484 against 11,461 to 45,362 on stocks.",
    horizon=stocks.DAYS,
    trials=100,
    cases=_CASES,
    score=_judge,
    picture=partial(draw_panels, _CASES, one_scale=False),
    remark="Numbers depend on the functions drawn, here anew in every trial; only orders can be "
    "compared. Stocks are 20 others, a trial from each.",
)
