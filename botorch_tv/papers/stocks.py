"""[W22] §7 and [ET] Table 1 on stocks: an arm is a stock, its closing price the reward.

[ET] standardise prices by one mean and one standard deviation. The kernel is their covariance. As
in the papers, both come from the days that are played. B is the largest norm of a day's prices in
the kernel's function space, B_T the sum of the largest daily changes. [W22] uses raw prices; in its
code, according to [ET], the prior mean is 0, the prior variance 1, the noise variance 300, and B 1.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from botorch_tv.papers.cases import Recorded
from botorch_tv.papers.deng2022 import FORGETTING, forgetting, line_up
from botorch_tv.papers.experiment import Experiment, Quick
from botorch_tv.papers.order import Claim, judge_readings
from botorch_tv.papers.recordings import Recordings
from botorch_tv.papers.surveys import variation
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.panels.covariance import spectrum
from botorch_tv.strategies import Strategy, random_search

DAYS = 823
NOISE = 0.01
RAW_NOISE = 300.0
"""Noise variance in the code of [W22], in squared units of the price."""


def prices(records: Recordings) -> PanelWorld:
    """The last 823 days, from which scale and covariance are estimated, too."""
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
    """The strategies of [W22], ET-GP-UCB, and random search."""
    memory = forgetting(budget(world), world.horizon)
    known = line_up(world.kernel, NOISE, largest_norm(world), memory)
    return {**known, "Random": random_search(kernel=world.kernel, noise=NOISE)}


def raw_prices(records: Recordings) -> PanelWorld:
    """The same days in units of the price, minus their mean."""
    played = records.stocks().values[-DAYS:]
    both = np.concatenate([played, played])
    return PanelWorld(both, len(played), standardize=False, first_arm="each")


def raw_strategies(world: PanelWorld) -> dict[str, Strategy]:
    """The same strategies with a prior of mean 0 and variance 1, as in the code of [W22]."""
    kernel = world.kernel / world.kernel.diagonal().mean()
    memory = forgetting(budget(world), world.horizon)
    known = line_up(kernel, RAW_NOISE, 1.0, memory)
    known["Random"] = random_search(kernel=kernel, noise=RAW_NOISE)
    zero = -float(world.mean)
    return {
        label: replace(strategy, mean=zero)  # type: ignore[call-arg]
        for label, strategy in known.items()
    }


case = Recorded("stocks, standardised", prices, strategies)

_CASES = {"stocks": case, "raw": Recorded("stocks, raw prices", raw_prices, raw_strategies)}


def _claims(name: str) -> list[Claim]:
    """The claims of [W22] Appendix E and [ET] Appendix A."""
    return [
        *(Claim(name, "WGP-UCB", other, 2.0) for other in ("IGP-UCB", *FORGETTING[:2])),
        *(Claim(name, label, "Random", 2.0) for label in ("IGP-UCB", *FORGETTING, "ET-GP-UCB")),
    ]


STOCKS = Experiment(
    id="w22-stocks",
    title="Closing prices of stocks",
    paper='On raw prices WGP-UCB "outperforms three algorithms over all experiments", IGP-, BR- '
    'and SW-GP-UCB. [ET]: "All algorithms outperform the random baseline", but "changing the '
    'random seed again changed this ordering".',
    horizon=DAYS,
    trials=20,
    cases=_CASES,
    score=partial(
        judge_readings,
        {"raw prices": _claims("raw"), "standardised prices": _claims("stocks")},
    ),
    remark="20 stocks over the last 823 days of another record, where the paper has 29 (48 in the "
    "table of [ET]). A trial starts from each stock; errors are of that. One stock is the best on "
    "814 of the days, so that who never forgets pays least.",
    quick=Quick(trials=3, horizon=200),
)
