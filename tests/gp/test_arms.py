"""When a step would amplify rounding: a matter of shares, whatever unit the objective has."""

import pytest
import torch
from conformance.rounds import Setting

from botorch_tv.forgetting import Retained, Retention, Wiener
from botorch_tv.gp.arms import LEAST_NOISE, ArmRecursion, amplifies
from botorch_tv.gp.basis import ArmBasis
from botorch_tv.strategies import GPStrategy

VARIANCES = (1e-4, 1.0, 2500.0)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_limit_is_a_share_of_the_largest_prior_variance(variance):
    covariance = variance * torch.diag(torch.tensor([0.3, 1.0, 0.5], dtype=torch.float64))
    basis = ArmBasis(covariance)
    assert amplifies(0.999 * LEAST_NOISE * variance, basis)
    assert not amplifies(1.001 * LEAST_NOISE * variance, basis)
    assert amplifies(1e3 * variance, ArmBasis(covariance.float()))


class Restarting(Retention):
    """Leaves out the two oldest rows in round 4; in the next all clocks begin anew."""

    def __init__(self, by_trial: bool, before_the_round: bool) -> None:
        self.by_trial, self.before_the_round = by_trial, before_the_round

    def keep(self, log):  # type: ignore[no-untyped-def]
        if log.rounds == 4 and log.newest is not None:
            return Retained(newest=2)
        due = log.rounds == (4 if self.before_the_round else 5)
        if not due or (log.newest is None) != self.before_the_round:
            return Retained()
        every = torch.ones_like(log.now, dtype=torch.bool)
        return Retained(reset=every if self.by_trial else True)


@pytest.mark.parametrize("before_the_round", [True, False])
@pytest.mark.parametrize("by_trial", [True, False])
def test_clocks_that_begin_anew_change_a_posterior_whose_rows_all_stay(by_trial, before_the_round):
    setting = Setting(points=3, kernel="se", noise=0.1, rounds=7)
    found = []
    for inference in ("auto", "exact"):
        player = GPStrategy(
            kernel=setting.module(),
            noise=0.1,
            decay=Wiener(0.4),
            retention=Restarting(by_trial, before_the_round),
            inference=inference,
        )
        state = player.init(setting.domain)
        follows = isinstance(player.inference_for(setting.domain, state.basis), ArmRecursion)
        assert follows == (inference == "auto")
        for t in range(1, 8):
            X = setting.domain.X[2 * t % 9]
            state, info = player.tell(state, player.suggestion_at(state, X), 0.3 * t - 1)
            assert bool(info.reset) == (t == 5)
            found.append(player.posterior(state, setting.domain.X))
    for own, exact in zip(found[:7], found[7:]):
        torch.testing.assert_close(own.mean, exact.mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(own.variance, exact.variance, rtol=0, atol=1e-10)
