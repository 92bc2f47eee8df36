"""[W22] §7 and [ET] Table 1 on stocks: an arm is a stock, its closing price the reward.

Prices are standardised by one mean and one standard deviation, and the kernel is their covariance,
both from the days that are played, as in the papers. B is the largest norm of a day's prices in the
space of that kernel, B_T the sum of the largest daily changes.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from botorch_tv.papers.cases import Recorded
from botorch_tv.papers.deng2022 import FORGETTING, forgetting, line_up
from botorch_tv.papers.experiment import Experiment, Quick
from botorch_tv.papers.order import Claim, judge
from botorch_tv.papers.recordings import Recordings
from botorch_tv.papers.surveys import variation
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.panels.covariance import spectrum
from botorch_tv.strategies import Strategy, random_search

DAYS = 823
NOISE = 0.01


def prices(records: Recordings) -> PanelWorld:
    """The last 823 days, which also give scale and covariance."""
    played = records.stocks().values[-DAYS:]
    return PanelWorld(
        np.concatenate([played, played]), len(played), noise_share=NOISE, first_arm="each"
    )


def largest_norm(world: PanelWorld) -> float:
    """B = max_t √(f_tᵀ K⁺ f_t)."""
    known = spectrum(world.kernel.cpu().numpy())
    loads = world.objective.cpu().numpy() @ known.vectors
    return float(np.sqrt((loads**2 / known.eigenvalues).sum(1).max()))


def budget(world: PanelWorld) -> float:
    """B_T = Σ_t max_x |f_{t+1}(x) - f_t(x)|."""
    return variation(world, 1, world.horizon)


def strategies(world: PanelWorld) -> dict[str, Strategy]:
    """Those of [W22], ET-GP-UCB, and chance."""
    memory = forgetting(budget(world), world.horizon)
    known = line_up(world.kernel, NOISE, largest_norm(world), memory)
    return {**known, "Random": random_search(kernel=world.kernel, noise=NOISE)}


case = Recorded("stocks", prices, strategies)

_CASES = {"stocks": case}

STOCKS = Experiment(
    id="w22-stocks",
    title="Closing prices of stocks, standardised",
    paper="WGP-UCB outperforms BR- and SW-GP-UCB on raw prices; [ET], who add chance, find that "
    "all outperform it.",
    horizon=DAYS,
    trials=20,
    cases=_CASES,
    score=partial(
        judge,
        [
            *(Claim("stocks", "WGP-UCB", other, 2.0) for other in FORGETTING[:2]),
            *(
                Claim("stocks", label, "Random", 2.0)
                for label in ("IGP-UCB", *FORGETTING, "ET-GP-UCB")
            ),
        ],
    ),
    remark="20 stocks over the last 823 days of another record, where the paper has 29 (48 in the "
    "table of [ET]), standardised as in [ET]. A trial starts from each stock; errors are of that.",
    quick=Quick(trials=3, horizon=200),
)
