"""Strategies over strategies: the laws of every strategy, and who is listened to."""

import copy
import io
import math
from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.rounds import Setting, make_world
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import UncertaintyInjection
from botorch_tv.forgetting.base import Static
from botorch_tv.loop import Loop
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.strategies import (
    BanditOverBandits,
    Box,
    Grid,
    PriorElimination,
    Strategy,
    bob_gp_ucb,
    et_gp_ucb,
    gp_ts,
    gp_ucb,
    pe_gp_ucb,
    protocol,
    w_gp_ucb,
)
from botorch_tv.strategies.presets import sparq_gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=24)
GRID, D, TRIALS = SETTING.domain, torch.float64, 3
KNOWN = {"kernel": SETTING.module(), "noise": 0.02}
COMMITTEES = {
    "elimination": lambda **more: pe_gp_ucb(**KNOWN, epsilons=(0.0, 0.03, 0.3), **more),
    "over bandits": lambda **more: bob_gp_ucb(
        **KNOWN, windows=(2, 6), block=6, horizon=24, B=2.0, **more
    ),
    "of triggers and samples": lambda **more: BanditOverBandits(
        members=(et_gp_ucb(**KNOWN, **more), gp_ts(**KNOWN, **more)), block=4, horizon=24
    ),
}
each = pytest.mark.parametrize("name", COMMITTEES)


def play(one, state, start=0, stop=SETTING.rounds, seeds=range(TRIALS), sign=1.0, take=None):
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    world = world if take is None else world.take(take)
    seen = []
    for t in range(start, stop):
        generators = [torch.Generator().manual_seed(100 * t + seed) for seed in seeds]
        suggestion = one.ask(state, generator=generators)
        state, info = one.tell(state, suggestion, sign * world.observe(t, suggestion.index))
        seen.append((suggestion, info))
    return state, seen


@each
def test_a_batch_is_its_trials(name):
    one = COMMITTEES[name]()
    last, together = play(one, one.init(GRID, batch_shape=(TRIALS,)))
    for trial in range(TRIALS):
        state, alone = play(one, one.init(GRID, batch_shape=(1,)), seeds=[trial], take=[trial])
        for (mine, info), (theirs, other) in zip(alone, together):
            assert torch.equal(mine.index, theirs.index[trial : trial + 1])
            assert torch.equal(mine.member, theirs.member[trial : trial + 1])
            assert torch.equal(info.reset, other.reset[trial : trial + 1])
            for part in ("mean", "sd", "sqrt_beta"):
                a, b = getattr(mine, part), getattr(theirs, part)[trial : trial + 1]
                torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
        for mine, theirs in zip(state.memory[-1], last.memory[-1]):
            torch.testing.assert_close(mine, theirs[trial : trial + 1], rtol=0, atol=1e-8)


@each
@pytest.mark.parametrize("domain", [GRID, Box([(0.0, 1.0)])], ids=["grid", "box"])
def test_one_trial_needs_no_batch_shape(name, domain):
    """It is that of a batch of one: ask, tell, recommend, posterior and the model."""
    one = COMMITTEES[name]()
    alone, single = one.init(domain), one.init(domain, batch_shape=(1,))
    for t in range(7):
        mine, theirs = (
            one.ask(state, generator=[torch.Generator().manual_seed(t)])
            for state in (alone, single)
        )
        y, heard = math.sin(5 * float(mine.X.sum()) + t), torch.tensor(t != 3)
        alone, info = one.tell(alone, mine, y, ok=heard)
        told = torch.tensor([y], dtype=D)
        single, other = one.tell(single, theirs, told, ok=heard.unsqueeze(0))
        pairs = [*zip(mine[:1], theirs[:1]), *zip(mine[2:6], theirs[2:6]), *zip(info, other)]
        for a, b in [*pairs, (mine.member, theirs.member)]:
            torch.testing.assert_close(a, b.squeeze(0), rtol=0, atol=1e-8)
    X = one.recommend(alone)
    torch.testing.assert_close(X, one.recommend(single).squeeze(0), rtol=0, atol=1e-6)
    wanted = one.posterior(single, X.view(1, 1, -1))
    for found in (one.posterior(alone, X.unsqueeze(0)), one.as_model(alone).posterior(X[None])):
        torch.testing.assert_close(found.mean, wanted.mean.squeeze(0), rtol=0, atol=1e-8)
        torch.testing.assert_close(found.variance, wanted.variance.squeeze(0), rtol=0, atol=1e-8)


@pytest.mark.parametrize("inflation", [Static(), UncertaintyInjection(1.0, 5.0)])
@pytest.mark.parametrize("kind", [PriorElimination, BanditOverBandits])
def test_alone_a_member_does_what_it_does_by_itself(kind, inflation):
    """A trigger compares with the prediction that the choice was made by, however noise ages."""
    more = {"block": 5, "horizon": 24} if kind is BanditOverBandits else {}
    member = replace(et_gp_ucb(**KNOWN, delta=0.9), inflation=inflation)
    one = kind(members=(member,), **more)
    _, mine = play(one, one.init(GRID, batch_shape=(TRIALS,)))
    _, theirs = play(member, member.init(GRID, batch_shape=(TRIALS,)))
    for (told, info), (wanted, other) in zip(mine, theirs):
        for part in ("index", "mean", "sd", "sqrt_beta", "time"):
            torch.testing.assert_close(
                getattr(told, part), getattr(wanted, part), rtol=0, atol=1e-9
            )
        for a, b in zip(info, other):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("y", [2.2, 6.0], ids=["within", "beyond"])
def test_who_was_followed_is_judged_by_what_it_predicted(y):
    """Side by side: the second answer is compared with what was predicted before the first."""
    member = et_gp_ucb(**KNOWN)
    committee = PriorElimination(members=(member,))
    told = []
    for one in (committee, member):
        state = one.init(GRID)
        suggestion = one.ask(state)
        for _ in range(2):
            state, info = one.tell(state, suggestion, y)
            told.append(bool(info.reset))
    assert told == [y > 3] * 4


@each
def test_a_saved_run_goes_on_and_nothing_changes_in_place(name):
    one = COMMITTEES[name]()
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 11)
    before, saved = copy.deepcopy(state), io.BytesIO()
    torch.save(state, saved)
    end, wanted = play(one, state, 11)
    for mine, theirs in zip(state.memory[-1], before.memory[-1]):
        assert torch.equal(mine, theirs)
    saved.seek(0)
    again, found = play(one, torch.load(saved, weights_only=False), 11)
    for (mine, _), (theirs, _) in zip(found, wanted):
        assert torch.equal(mine.index, theirs.index)
        assert torch.equal(mine.mean, theirs.mean)
    for mine, theirs in zip(again.memory[-1], end.memory[-1]):
        assert torch.equal(mine, theirs)


@each
def test_smallest_values_are_the_mirror_image(name):
    if name == "of triggers and samples":
        pytest.skip("a draw is as likely as its mirror image, but another")
    up, down = COMMITTEES[name](), COMMITTEES[name](maximize=False)
    one = play(up, up.init(GRID, batch_shape=(TRIALS,)))[1]
    other = play(down, down.init(GRID, batch_shape=(TRIALS,)), sign=-1.0)[1]
    for (mine, _), (theirs, _) in zip(one, other):
        assert torch.equal(mine.index, theirs.index)


@each
def test_the_leading_member_predicts_and_recommends(name):
    one = COMMITTEES[name]()
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 9)
    leading = one.leading(state)
    X = GRID.X[:4]
    arms, points = one.recommended_arm(state), one.recommend(state)
    posterior = one.posterior(state, X)
    wide = one.posterior(state, X.view(2, 1, 2, 2).expand(2, TRIALS, 2, 2))
    for trial, number in enumerate(leading.tolist()):
        member, own = one.members[number], state.members[number]
        assert arms[trial] == member.recommended_arm(own)[trial]
        assert torch.equal(points[trial], member.recommend(own)[trial])
        wanted = member.posterior(own, X)
        torch.testing.assert_close(posterior.mean[trial], wanted.mean[trial])
        torch.testing.assert_close(posterior.variance[trial], wanted.variance[trial])
        torch.testing.assert_close(wide.mean[:, trial].reshape(4, 1), wanted.mean[trial])
        assert one.model_noise(state)[trial] == member.model_noise(own)[trial]
    assert one.as_model(state).posterior(X).mean.shape == (TRIALS, 4, 1)
    assert one.band(state, one.ask(state)) is None
    assert one.numbers_per_trial(state, 20) > one.members[0].numbers_per_trial(state, 20)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_box_in_either_precision(name, dtype):
    one, box = COMMITTEES[name](), Box([(0.0, 1.0), (0.0, 1.0)])
    state = one.init(box, batch_shape=(2,), dtype=dtype)
    for t in range(7):
        suggestion = one.ask(state, generator=torch.Generator().manual_seed(t))
        assert suggestion.X.dtype == suggestion.mean.dtype == dtype
        state, _ = one.tell(state, suggestion, torch.cos(4 * suggestion.X.sum(-1)))
    for part in state.memory[-1]:
        assert not part.is_floating_point() or part.dtype == dtype


@each
def test_what_is_refused_leaves_the_state_as_it_was(name):
    one = COMMITTEES[name]()
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 5)
    before = copy.deepcopy(state)
    suggestion = one.ask(state)
    y = torch.zeros(TRIALS, dtype=D)
    wrong = [
        (suggestion._replace(member=suggestion.member + 7), y, "out of bounds"),
        (suggestion._replace(index=suggestion.index + 100), y, "names no arm"),
        (one.members[0].ask(state.members[0]), y, "the suggestion belongs to"),
        (suggestion, y * math.nan, "NaN|nan"),
    ]
    for made, value, message in wrong:
        with pytest.raises((InputDataError, RuntimeError), match=message):
            one.tell(state, made, value, consume=True)
    for mine, theirs in zip(state.memory[-1], before.memory[-1]):
        assert torch.equal(mine, theirs)
    one.tell(state, suggestion, y)


@each
def test_a_point_chosen_elsewhere_teaches_members_alone(name):
    one = COMMITTEES[name]()
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 8)
    suggestion = one.suggestion_at(state, GRID.X[:TRIALS])
    assert suggestion.member is None
    after, _ = one.tell(state, suggestion, torch.full((TRIALS,), 9.0, dtype=D))
    for mine, theirs in zip(after.memory[-1], state.memory[-1]):
        assert torch.equal(mine, theirs)
    assert all(own.told == state.told + 1 for own in after.members)


@pytest.mark.parametrize("noise", [None, 0.3])
def test_members_hear_what_they_would_be_told_alone_and_it_is_looked_at_once(noise, monkeypatch):
    """Each with its own variance, unless one is told."""
    members = (gp_ucb(kernel=RBFKernel().double(), noise=0.1), w_gp_ucb(**KNOWN, gamma=0.9))
    one = BanditOverBandits(members=members, block=4, horizon=24)
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 5)
    suggestion = one.suggestion_at(state, GRID.X[:TRIALS])
    y = torch.tensor([0.1, math.nan, 0.3], dtype=D)
    told = {"ok": y.isfinite(), "noise": noise}
    looked, plain = [], protocol.require_suggestion
    monkeypatch.setattr(
        protocol, "require_suggestion", lambda *a, **b: looked.append(1) or plain(*a, **b)
    )
    after, _ = one.tell(state, suggestion, y, **told)
    assert len(looked) == 1
    for member, own, theirs in zip(members, state.members, after.members):
        alone, _ = member.tell(own, member.suggestion_at(own, suggestion.X), y, **told)
        ours, wanted = member.posterior(theirs, GRID.X), member.posterior(alone, GRID.X)
        assert torch.equal(ours.mean, wanted.mean)
        assert torch.equal(ours.variance, wanted.variance)
        assert torch.equal(theirs.history.noise.tensor(), alone.history.noise.tensor())


@each
def test_failures_count_as_rounds(name):
    one = COMMITTEES[name]()
    state, _ = play(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 7)
    suggestion = one.ask(state)
    y = torch.tensor([0.1, math.nan, 0.3], dtype=D)
    after, _ = one.tell(state, suggestion, y, ok=y.isfinite())
    assert after.told == 8
    for part in after.memory[-1]:
        assert bool(part.isfinite().all())


def test_in_a_study():
    world = MarkovWorld(GRID, kernel=SETTING.module(), epsilon=0.03, noise=0.02)
    players = {name: make() for name, make in COMMITTEES.items()} | {"GP": gp_ucb(**KNOWN)}
    whole = run_study(world, players, trials=6, horizon=12, chunk=6)
    parts = run_study(world, players, trials=6, horizon=12, chunk=2)
    for name in players:
        mine, theirs = (one.regret.sel(strategy=name).values for one in (whole, parts))
        assert mine == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("kind", [PriorElimination, BanditOverBandits])
def test_members_are_strategies_that_agree(kind):
    more = {"block": 2, "horizon": 9} if kind is BanditOverBandits else {}
    good = gp_ucb(**KNOWN)
    for members, message in [
        ((), r"members is \(\), but"),
        ((good, "TV"), "'TV'.*, but it takes at least one strategy"),
        ((good, kind(members=(good,), **more)), "no committee"),
        ((sparq_gp_ucb(**KNOWN),), "none with an expert"),
        ((good, gp_ucb(**KNOWN, maximize=False)), "either all maximise"),
    ]:
        with pytest.raises(ValueError, match=message):
            kind(members=members, **more)


def test_what_keeps_no_members_refuses_committees():
    optuna = pytest.importorskip("botorch_tv.optuna")
    one = COMMITTEES["elimination"]()
    with pytest.raises(ValueError, match=r"Loop: .* which of its members"):
        Loop(one, GRID)
    with pytest.raises(ValueError, match="must be told which member"):
        optuna.DriftSampler(one)


def test_priors_need_not_share_a_kernel():
    other = RBFKernel().double()
    other.lengthscale = torch.tensor(0.5, dtype=D)
    one = PriorElimination(members=(gp_ucb(**KNOWN), gp_ucb(kernel=other, noise=0.02)))
    assert isinstance(one, Strategy)
    state, seen = play(one, one.init(Grid.regular(points=5, dim=2), batch_shape=(TRIALS,)))
    assert {int(one) for suggestion, _ in seen for one in suggestion.member} == {0, 1}
    assert state.told == SETTING.rounds
