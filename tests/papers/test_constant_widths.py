import numpy as np
import pytest
from synthetic_results import make_result

from botorch_tv.acquisition import WidthContext
from botorch_tv.papers import EXPERIMENTS, mandl2026
from botorch_tv.papers.mandl2026 import BETAS, GROWING, best_beta, better_betas

FIGURE = EXPERIMENTS["mk-fig1"]


def result(valley, growing, noise=0.0):
    random = np.random.default_rng(0)
    means = {f"β = {beta:g}": 10 + abs(beta - valley) for beta in BETAS} | {GROWING: growing}
    return make_result(
        {name: (mean / 2 + noise * random.random((4, 2))).tolist() for name, mean in means.items()}
    )


def test_best_and_better_betas():
    found = result(valley=5.0, growing=12.5)
    assert best_beta(found) == 5.0
    assert better_betas(found) == 5  # 3, 4, 5, 6 and 7


def test_verdicts():
    theirs = {f"epsilon-{rate}": result(best, 15.0, 0.1) for rate, best in mandl2026.BEST.items()}
    assert FIGURE.score(theirs).holds is True
    growing_is_best = {name: result(5.0, 9.0, 0.1) for name in theirs}
    assert FIGURE.score(growing_is_best).holds is False
    elsewhere = {name: result(0.5, 15.0, 0.1) for name in theirs}
    assert FIGURE.score(elsewhere).holds is False


@pytest.mark.parametrize("rate", mandl2026.BEST)
def test_strategies_have_the_true_rate(rate):
    world, strategies = FIGURE.cases[f"epsilon-{rate}"].stage()
    assert (len(world.domain), world.epsilon, world.noise) == (400, rate, 0.01)
    assert {strategy.decay.epsilon for strategy in strategies.values()} == {rate}
    first = strategies["β = 4"]
    assert first.width.beta(WidthContext(t=9999, dim=2)) == pytest.approx(4.0)
    lengthscale = first.kernel.lengthscale.item()
    assert lengthscale == pytest.approx(0.1)
    grown = strategies[GROWING].width.beta(WidthContext(t=10_000, dim=2))
    assert grown == pytest.approx(0.8 * np.log(40_000))
