"""Several outcomes: limits, objectives, missing values, and that a loop plays the strategy."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.acquisition.multi_objective import (
    logei,
    qLogNoisyExpectedHypervolumeImprovement,
)
from botorch.acquisition.multi_objective.objective import WeightedMCMultiOutputObjective
from botorch.exceptions import InputDataError
from botorch.models import SingleTaskGP
from botorch.models.model import ModelList
from botorch.sampling import ListSampler, SobolQMCNormalSampler
from botorch.utils.multi_objective.hypervolume import Hypervolume
from gp.mixture.readings import bank_of
from gpytorch.means import ZeroMean

from botorch_tv import Box, Grid, Loop, adaptive_gp_ucb, et_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.acquisition.widths import Logarithmic
from botorch_tv.even_points import even_points
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import MultiStart, Outcomes
from botorch_tv.strategies.expressions import parse_limits, parse_objectives
from botorch_tv.strategies.feasible import AllOf, Asked, Feasible
from botorch_tv.strategies.outcomes import (
    NARROW,
    RATES,
    SELECTED,
    Scalarisation,
    most_added,
    reference,
    undominated,
)

KERNEL = unit_kernel("se", 0.3)
MODELS = {
    "adaptive": adaptive_gp_ucb(bank=bank_of(1)),
    "given": gp_ucb(kernel=KERNEL, noise=0.01),
    "trigger": et_gp_ucb(kernel=KERNEL, noise=0.01),
}
QUICK = MultiStart(raw_samples=64, restarts=3, evaluations=20)
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
DOMAINS = {"box": Box(UNIT, search=QUICK), "grid": Grid.regular(points=9, dim=2)}


def outcomes(model, limits=("p <= 0.5",), objective="y", names=("y", "p"), **others) -> Outcomes:
    return Outcomes(
        names=names,
        objectives=parse_objectives(objective),
        limits=parse_limits(limits) if limits else (),
        model=model,
        **others,
    )


def test_defaults_of_the_adaptive_strategy_change_with_limits_alone() -> None:
    """Rates of limited outcomes, and the width; not without limits, if safe, or if both differ."""
    usual = adaptive_gp_ucb()
    wide = adaptive_gp_ucb(width=Logarithmic(c1=0.7), bank=Bank(rates=(0.0,)))
    first, limited = outcomes(usual).members
    assert first == replace(usual, width=NARROW)
    assert limited == replace(first, bank=Bank(rates=RATES))
    for own in (outcomes(usual, limits=()), outcomes(usual, safe=True), outcomes(wide)):
        assert all(member == own.model for member in own.members)


def truth(X: torch.Tensor, t: float) -> list[float]:
    x, z = X.tolist()
    return [1 - (x - 0.8) ** 2 - (z - 0.5) ** 2, x + 0.2 * math.sin(t / 3) - 0.1 * z]


@pytest.mark.few(2)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", MODELS)
def test_one_outcome_without_limits_is_the_strategy_itself(name: str, domain: str) -> None:
    alone, whole = MODELS[name], outcomes(MODELS[name], limits=())
    one, two = alone.init(DOMAINS[domain]), whole.init(DOMAINS[domain])
    for t in range(9):
        first, second = alone.ask(one, now=float(t)), whole.ask(two, now=float(t))
        assert torch.equal(first.X, second.X)
        assert torch.equal(first.mean, second.mean)
        y, p = truth(first.X, t)
        ok = torch.tensor(t != 4)
        one, info = alone.tell(one, first, y, ok=ok)
        two, same = whole.tell(two, second, [y, p], ok=ok)
        assert torch.equal(info.reset, same.reset)
        if t == 3:  # what failures teach is told to the plain strategy by the caller
            whole = outcomes(MODELS[name], limits=(), avoids_failures=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", ["adaptive", "given"])
def test_a_loop_makes_the_choices_of_the_strategy(name: str, domain: str) -> None:
    """With failures, limits and missing outcomes."""
    loop = Loop(outcomes(MODELS[name], avoids_failures=False), DOMAINS[domain])
    strategy = outcomes(MODELS[name])
    state = strategy.init(DOMAINS[domain])
    for t in range(16):
        asked, made = loop.ask(now=t), strategy.ask(state, now=float(t))
        assert torch.equal(asked.X, made.X)
        y, p = truth(made.X, t)
        values = {"y": y, "p": p} if t % 5 else {"p": p} if t == 5 else {"y": y}
        ok = float(made.X[1]) < 0.6
        loop.tell(values, ok=ok)
        state, _ = strategy.tell(state, made, values, ok=torch.tensor(ok))
    assert torch.equal(loop.ask(now=17).X, strategy.ask(state, now=17.0).X)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("domain", "limits", "objective"),
    [("box", ("p <= 0.5",), "y"), ("grid", ("p <= 0.5",), "y"), ("grid", (), "y, -p")],
)
def test_a_batch_makes_the_choices_of_its_trials(domain: str, limits, objective: str) -> None:
    strategy = outcomes(MODELS["given"], limits, objective, confidence=0.9)
    weights = torch.rand(7, 3, 2, generator=torch.Generator().manual_seed(0)).double() + 0.1

    class Given:
        def __init__(self, rows):
            self.rows = rows

        def normal(self, *shape):
            return self.rows

    place = Box(UNIT) if domain == "box" else DOMAINS[domain]
    batch = strategy.init(place, batch_shape=(3,))
    alone = [strategy.init(place) for _ in range(3)]
    for t in range(7):
        made = strategy._ask(batch, Asked(float(t)), Given(weights[t]))
        each = [
            strategy._ask(state, Asked(float(t)), Given(weights[t, n]))
            for n, state in enumerate(alone)
        ]
        X = torch.stack([own.X for own in each])
        torch.testing.assert_close(made.X, X, atol=1e-4, rtol=0)
        y = torch.tensor([truth(own.X, t + n) for n, own in enumerate(each)]).double()
        y[1, 0] = math.nan if t == 2 else y[1, 0]
        ok = torch.tensor([True, True, t != 3])
        batch, _ = strategy.tell(batch, made, y, ok=ok)
        alone = [
            strategy.tell(state, own, y[n], ok=ok[n])[0]
            for n, (state, own) in enumerate(zip(alone, each))
        ]


def test_a_batch_makes_choices_as_good_as_those_of_its_trials() -> None:
    """At the usual confidence the best places are flat, so the promise is compared."""
    strategy = outcomes(MODELS["given"], ("p <= 0.5",), "y")
    batch = strategy.init(Box(UNIT), batch_shape=(3,))
    alone = [strategy.init(Box(UNIT)) for _ in range(3)]
    anywhere = torch.rand(400, 2, generator=torch.Generator().manual_seed(1)).double()
    for t in range(6):
        made = strategy.ask(batch, now=float(t))
        each = [strategy.ask(state, now=float(t)) for state in alone]
        for n, state in enumerate(alone):
            X = torch.cat([made.X[[n]], each[n].X.unsqueeze(0), anywhere])
            (mean, v), (middle, w) = (moments(*pair, X, float(t)) for pair in strategy.pairs(state))
            p = torch.distributions.Normal(0.0, 1.0).cdf((0.5 - middle) / w.sqrt())
            promises = promised(mean + each[n].sqrt_beta * v.sqrt(), p, 2 * (1 - p), 1.0)
            assert abs(promises[0] - promises[1]) <= 1e-4
        y = torch.tensor([truth(made.X[n], t + n) for n in range(3)]).double()
        batch, _ = strategy.tell(batch, made, y)
        alone = [
            strategy.tell(state, strategy.suggestion_at(state, made.X[n], now=float(t)), y[n])[0]
            for n, state in enumerate(alone)
        ]


NO_JUMPS = adaptive_gp_ucb(bank=bank_of(1, hazards=(0.0,)))


def moments(member, state, X: torch.Tensor, now: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and variances at points `q x d`, from the joint posterior at each."""
    choice = state.domain.locate(X) if isinstance(state.domain, Grid) else X
    mean, covariance, _ = member._joint(state, choice.unsqueeze(1), now)
    return mean.flatten(), covariance.flatten()


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(("model", "safe"), [(NO_JUMPS, False), (NO_JUMPS, True), ("given", False)])
def test_the_probability_of_keeping_limits_is_that_of_the_posteriors(model, safe, domain) -> None:
    limits = ["p <= 0.5", "-0.4 <= y - p"]
    strategy = outcomes(MODELS.get(model, model), limits, safe=safe)
    state, own = strategy.init(DOMAINS[domain]), DOMAINS["grid"].X[:24:3]
    for t, x in enumerate(own):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, x), truth(x, t))
    X = DOMAINS["grid"].X[3::11]
    kept = strategy.kept(state, 20.0)
    normal, wanted, left = torch.distributions.Normal(0.0, 1.0), 1.0, 1.0
    bounds = [(1, 0.5), (-1, -0.4)]
    for member, part, (sign, bound) in zip(strategy.members[1:], state.members[1:], bounds):
        mean, v = moments(member, part, X, 20.0)
        if safe:
            noise = member.model_noise(part)
            v, left = SELECTED * v, left * noise / (noise + v)
        wanted = wanted * normal.cdf(sign * (bound - mean) / v.sqrt())
    weight, risk = kept.judge(X.unsqueeze(0))
    torch.testing.assert_close(weight[0] ** 2, wanted * (2 - left) ** 2, rtol=0, atol=1e-8)
    torch.testing.assert_close(risk[0], (1 - wanted) / (1 - strategy.confidence))
    torch.testing.assert_close(kept.strict().judge(X.unsqueeze(0))[0][0] ** 2, wanted)
    assert torch.equal(kept.allowed(X.unsqueeze(0)), risk <= 1)


@pytest.mark.parametrize("safe", [False, True])
def test_gradients_of_feasibility_are_those_of_automatic_differentiation(safe: bool) -> None:
    strategy = outcomes(MODELS["adaptive"], ["p <= 0.5", "y >= 0.2"], safe=safe)
    state = strategy.init(DOMAINS["box"])
    for t, x in enumerate(DOMAINS["grid"].X[:24:3]):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, x), truth(x, t))
    kept, X = strategy.kept(state, 20.0), DOMAINS["grid"].X[4::13].unsqueeze(0)
    for part in (kept, AllOf([kept, kept])):
        for by in (1.0, 0.0), (0.0, 1.0), part.judge(X):
            (*found, pull), (*wanted, by_autograd) = part.slopes(X), Feasible.slopes(part, X)
            torch.testing.assert_close([*found, pull(*by)], [*wanted, by_autograd(*by)])


def test_few_steps_along_limits_end_within_two_hundredths_of_a_long_search(monkeypatch) -> None:
    searches, best = [], MultiStart.best
    monkeypatch.setattr(MultiStart, "best", lambda *own: searches.append(own) or best(*own))
    strategy = outcomes(adaptive_gp_ucb(), ["p <= 0.4"])
    state = strategy.init(Box([(0.0, 1.0)] * 4))
    for t, x in enumerate(even_points(14, 4)):
        y, p = -(x - 0.7).square().sum(), x.square().mean()
        state, _ = strategy.tell(state, strategy.suggestion_at(state, x), [float(y), float(p)])
        if t in (7, 13):
            strategy.ask(state)
    for search, box, problem in searches:
        long = problem._replace(brief=False, coarse=False)
        ends = torch.stack([best(search, box, each) for each in (problem, long)], 1)
        few, many = (problem.score(ends, None)[0] / problem.unit).tolist()
        assert few >= many - 0.02
    assert len(searches) == 2


def promised(score, p, risk, unit):
    """The rule of choices, from its formula."""
    first = p.sqrt() * (score - score.min()) / (1 + risk**16)
    return first - unit * (1 - 1 / risk.clamp_min(1))


@pytest.mark.parametrize("model", [NO_JUMPS, tv_gp_ucb(kernel=KERNEL, noise=0.01, epsilon=0.03)])
def test_choices_on_a_grid_maximise_the_promise_of_dense_posteriors(model) -> None:
    strategy = outcomes(model, ["p <= 0.7", "y - p >= -0.9"])
    state, X = strategy.init(DOMAINS["grid"]), DOMAINS["grid"].X
    normal, values, unit = torch.distributions.Normal(0.0, 1.0), [], 1.0
    for t in range(11):
        made = strategy.ask(state, now=float(t))
        if t >= 6:
            if model is NO_JUMPS:
                unit = float(np.std(values[:4]))
            (mean, v), *limited = (
                moments(member, own, X, float(t)) for member, own in strategy.pairs(state)
            )
            p = 1.0
            for (middle, variance), sign, bound in zip(limited, [1, -1], [0.7, -0.9]):
                p = p * normal.cdf(sign * (bound - middle) / variance.sqrt())
            risk = (1 - p) / (1 - strategy.confidence)
            bounds = mean + made.sqrt_beta * v.sqrt()
            assert int(made.index) == int(promised(bounds, p, risk, unit).argmax())
            best = state.domain.locate(strategy.recommend(state, now=float(t)))
            strict = (1 - p) / (1 - 0.9)
            assert int(best) == int(promised(mean, p, strict, unit).argmax())
        state, _ = strategy.tell(state, made, truth(made.X, t))
        values.append(truth(made.X, t)[0])


@pytest.mark.parametrize("name", ["adaptive", "given"])
def test_a_missing_outcome_leaves_the_other_members_as_if_nothing(name: str) -> None:
    whole, alone = (outcomes(MODELS[name]).init(DOMAINS["grid"]) for _ in range(2))
    strategy = outcomes(MODELS[name])
    for t, x in enumerate(DOMAINS["grid"].X[:24:3]):
        y, p = truth(x, t)
        made = strategy.suggestion_at(whole, x, now=float(t))
        whole, _ = strategy.tell(whole, made, {"y": y, "p": p})
        made = strategy.suggestion_at(alone, x, now=float(t))
        alone, _ = strategy.tell(alone, made, {"p": p} if t in (2, 5) else {"y": y, "p": p})
    for number, same in enumerate((False, True)):
        (first, _), (second, _) = (
            moments(strategy.members[number], state.members[number], DOMAINS["grid"].X, 9.0)
            for state in (whole, alone)
        )
        assert torch.equal(first, second) is same


@pytest.mark.parametrize("domain", DOMAINS)
def test_limits_are_kept_while_they_drift(domain: str) -> None:
    loop = Loop(DOMAINS[domain], objective="y", constraints="p <= 0.5")
    violated = 0
    for t in range(40):
        X = loop.ask(now=t).X
        y, p = truth(X, t / 3)
        violated += t >= 20 and p > 0.5
        loop.tell({"y": y, "p": p})
    assert violated <= 3
    assert truth(torch.tensor(loop.recommend(now=40)), 40 / 3)[1] <= 0.5


def test_hypervolume_improvement_on_the_posteriors_of_outcomes(monkeypatch) -> None:
    """BoTorch's on its own models of the same measurements, with a constraint."""
    monkeypatch.setattr(logei, "_load_attempted", True)  # compile nothing
    strategy = outcomes(MODELS["given"], objective="y, -q", names=("y", "q", "p"))
    state = strategy.init(DOMAINS["box"])
    X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).double()
    Y = torch.stack([X[:, 0], X[:, 1] ** 2, X.sum(-1)], -1)
    for x, y in zip(X, Y):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, x), y)
    models = [
        SingleTaskGP(X, column[:, None], noise, None, KERNEL, ZeroMean(), outcome_transform=None)
        for column, noise in zip(Y.mT, torch.full((3, 6, 1), 0.01, dtype=Y.dtype))
    ]
    best = WeightedMCMultiOutputObjective(torch.tensor([1.0, -1.0]).double(), outcomes=[0, 1])
    found, expected = (
        qLogNoisyExpectedHypervolumeImprovement(
            model,
            torch.tensor([-0.5, -1.5]).double(),
            X,
            ListSampler(*(SobolQMCNormalSampler(torch.Size([8]), seed=k) for k in range(3))),
            best,
            [lambda Y: Y[..., 2] - 0.5],
            cache_root=False,
        )(X[:3, None] / 2)
        for model in (strategy.as_models(state), ModelList(*models))
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_the_reference_point_and_what_dominates() -> None:
    values = torch.tensor([[[0.0, 3.0], [1.0, 1.0], [3.0, 0.0], [0.5, 0.5], [0.0, 3.0]]])
    assert undominated(values).tolist() == [[True, True, True, False, True]]
    worst, extent = reference(values)
    torch.testing.assert_close(worst, torch.tensor([[-0.3, -0.3]]))
    torch.testing.assert_close(extent, torch.tensor([[3.0, 3.0]]))


def test_trade_offs_add_most_hypervolume() -> None:
    """Against BoTorch's hypervolume of each set of rows."""
    draws = torch.Generator().manual_seed(0)
    for k in (2, 3):
        values, p = (torch.rand(*n, generator=draws).double() for n in ((30, k), (30,)))
        volume, expected = Hypervolume(torch.zeros(k).double()).compute, list[int]()
        for _ in range(4):
            before = volume(values[expected]) if expected else 0.0
            added = [float(w) * (volume(values[[*expected, n]]) - before) for n, w in enumerate(p)]
            expected.append(added.index(max(added)))
        found = most_added(values, torch.zeros(k).double(), p, 4)
        assert found.tolist() == expected


def test_several_objectives_have_settings_that_do_not_dominate_each_other() -> None:
    strategy = outcomes(MODELS["given"], (), "y, -p")
    state = strategy.init(DOMAINS["box"])
    draws = torch.Generator().manual_seed(0)
    for t in range(25):
        made = strategy.ask(state, now=float(t), generator=draws)
        state, _ = strategy.tell(state, made, truth(made.X, 0.0))
    X = strategy.pareto(state, now=25.0)
    values = strategy.objective_means(state, X, 25.0)
    assert bool(undominated(values.unsqueeze(0)).all())
    assert X[:, 0].max() > 0.6
    assert X[:, 0].min() < 0.15
    assert Scalarisation.draws_numbers is False


def test_a_loop_of_named_outcomes_is_saved_with_its_words(tmp_path) -> None:
    ranges = {"a": (0.0, 1.0), "b": (0.0, 1.0)}
    loop = Loop(ranges, objective="y - 0.1 * p", constraints=["p <= 0.5"], confidence=0.8)
    for t in range(8):
        y, p = truth(torch.tensor(list(loop.ask(now=t).point.values())), t)
        loop.tell({"y": y, "p": p} if t != 3 else {"p": p}, ok=t != 5)
    loop.save(tmp_path / "loop.json")
    again, other = (Loop.load(tmp_path / "loop.json", own) for own in (None, adaptive_gp_ucb()))
    assert again.ask(now=9).point == other.ask(now=9).point == loop.ask(now=9).point
    assert again.table().equals(loop.table())
    table = loop.table()
    assert table["objective"].isna().equals(table["y"].isna() | table["p"].isna())
    assert table["y"].isna().tolist() == [t in (3, 5) for t in range(8)]
    assert table["p"].isna().tolist() == [t == 5 for t in range(8)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"constraints": "p <= 5"}, "give objective='yield'"),
        ({"objective": "y", "maximize": True}, "write a minus"),
        ({"objective": "a"}, "a is a parameter or context, and an outcome"),
        ({"objective": "y", "constraints": "p + a <= 1"}, "have outcomes and parameters"),
        ({"objective": "y", "confidence": 1.5}, "confidence is 1.5"),
        ({"confidence": 0.5}, "without constraints"),
    ],
)
def test_words_that_are_refused(arguments, words) -> None:
    with pytest.raises(ValueError, match=words):
        Loop({"a": (0, 1)}, **arguments)


@pytest.mark.parametrize("y", [1.0, {"y": 1.0, "q": 2.0}, {}, {"y": math.nan}, [1.0, 2.0]])
def test_measurements_that_are_refused(y) -> None:
    loop = Loop({"a": (0, 1)}, objective="y", constraints="p <= 1")
    loop.ask(now=0)
    with pytest.raises(InputDataError):
        loop.tell(y)
    loop.tell({"y": 1.0})


@pytest.mark.parametrize("name", ["adaptive", "given"])
def test_one_outcome_with_noise_is_the_strategy_with_that_noise(name: str) -> None:
    """In the units of an objective that is twice the outcome, less a constant."""
    alone, whole = MODELS[name], outcomes(MODELS[name], (), "2 * y - 1", ("y",))
    one, two = alone.init(DOMAINS["grid"]), whole.init(DOMAINS["grid"])
    for t, x in enumerate(DOMAINS["grid"].X[:24:3]):
        y, noise = truth(x, t)[0], (None, 0.03, 0.2)[t % 3]
        made, same = (
            own.suggestion_at(at, x, now=float(t)) for own, at in ((alone, one), (whole, two))
        )
        one, _ = alone.tell(one, made, 2 * y - 1, noise=None if noise is None else 4 * noise)
        two, _ = whole.tell(two, same, {"y": y}, noise=None if noise is None else {"y": noise})
    for first, second in zip(
        moments(alone, one, DOMAINS["grid"].X, 9.0),
        moments(whole.members[0], two.members[0], DOMAINS["grid"].X, 9.0),
    ):
        torch.testing.assert_close(first, second)


def test_the_noise_of_formulas_is_propagated(tmp_path) -> None:
    """Var(y - 3 p / 2) = v + 9 w / 4; without the variance of an outcome, the model's own."""
    loop = Loop(outcomes(MODELS["given"], ["y - 3 * p / 2 <= 9", "p <= 9"]), DOMAINS["grid"])
    for noise in ({"y": 0.2, "p": 0.4}, {"p": 0.4}, None):
        loop.observe([0.5, 0.5], {"y": 1.0, "p": 2.0}, noise=noise)
    loop.observe([0.5, 0.5], {"p": 2.0}, noise={"p": 0.4})
    found = [member.history.noise.tensor().tolist() for member in loop.state.members]
    none = math.inf
    assert found[0] == [0.2, 0.01, 0.01, none]
    assert found[1] == pytest.approx([0.2 + 9 * 0.4 / 4, 0.01, 0.01, none])
    assert found[2] == [0.4, 0.4, 0.01, 0.4]
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    pd.testing.assert_frame_equal(again.table(), loop.table())
    with pytest.raises(InputDataError, match=r"noise is 0\.1, but the outcomes are y, p; tell"):
        loop.observe([0.5, 0.5], {"y": 1.0}, noise=0.1)
    loop = Loop(outcomes(MODELS["given"], ["y * p <= 9", "y / (1 + p) >= 0"]), DOMAINS["grid"])
    loop.observe([0.5, 0.5], {"y": 1.0, "p": 2.0}, noise={"y": 0.2})
    with pytest.raises(ValueError, match=r"noise is given, but 'y \* p' is not linear; give"):
        loop.observe([0.5, 0.5], {"y": 1.0, "p": 2.0}, noise={"y": 0.2, "p": 0.1})
