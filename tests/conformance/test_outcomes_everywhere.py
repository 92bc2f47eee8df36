"""Which wishes work where: limits, safety, objectives, context, moves and others, in six places.

Every cell of the table is run. A cell is a function that asserts what holds, or a call and the
sentence with which it is refused.
"""

import json
import math

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv import Box, Context, Float, Grid, Loop, adaptive_gp_ucb, gp_ucb
from botorch_tv.cli import command
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import Violations, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.worlds import MarkovWorld, OutcomesWorld
from botorch_tv.strategies import MultiStart, Outcomes
from botorch_tv.strategies.expressions import parse_limits, parse_objectives

ROWS = ("limits", "safe", "objectives", "context", "max_step", "missing outcome", "failures")
ROWS += ("changed space", "noise", "move_cost")
COLUMNS = ("Loop", "shell", "Optuna", "Ax", "BoTorch", "study")
ONE = "move_cost has the unit of one objective"
D = torch.float64
KERNEL = unit_kernel("se", 0.3)
MODEL = gp_ucb(kernel=KERNEL, noise=0.01)
ADAPTIVE = adaptive_gp_ucb(bank=Bank(rates=(0.0,), hazards=(0.0,)))
XS = (0.2, 0.6, 1.0, 1.4, 0.8, 0.5)
LIMITED = {"objective": "y", "constraints": ["p <= 1"]}


def truth(x):
    """More is better, up to a pressure of 1."""
    return {"y": x, "p": x}


# ---------------------------------------------------------------- Loop


def loop(space=None, model=MODEL, xs=XS, **words):
    """A loop of x in [0, 2] with six measurements, the last at 0.5."""
    made = Loop(model, {"x": Float(0, 2)} if space is None else space, **words)
    for x in xs:
        context = {"w": x} if made.domain.columns > 1 else None
        values = truth(x) if "objective" in words else x
        made.observe({"x": x}, values, context=context)
    return made


def loop_limits():
    made = loop(**LIMITED)
    assert made.ask()["x"] <= 1.1
    assert 0.7 < made.recommend()["x"] <= 1.01


def loop_safe():
    made = loop(xs=(), model=None, **LIMITED, safe=0.95, start={"x": 0.5})
    found = []
    for _ in range(4):
        found.append(made.ask()["x"])
        made.tell(truth(found[-1]))
    assert found[0] == 0.5
    assert max(found) <= 0.9


def loop_objectives():
    front = loop(objective=["y", "-p"]).pareto(points=4)
    assert len({setting.point["x"] for setting in front}) == len(front) > 1


def loop_context():
    made = loop({"x": Float(0, 2), "w": Context(0, 2)})
    asked = made.ask(context={"w": 1.25})
    assert asked.context == {"w": 1.25}
    made.tell(1.0, context={"w": 1.5})
    assert made.ask().context == {"w": 1.5}


def loop_max_step():
    assert abs(loop(max_step={"x": 0.25}).ask()["x"] - 0.5) <= 0.25


def loop_missing():
    made = loop(**LIMITED)
    made.observe({"x": 0.7}, {"y": 0.7})
    finite = [own.history.noise.tensor()[-1].isfinite() for own in made.state.members]
    assert finite == [True, False]
    assert made.ask()["x"] <= 1.1


def loop_failures():
    made = loop()
    before = made.ask()["x"]
    made.tell(ok=False)
    made.observe({"x": before}, ok=False)
    assert abs(made.ask()["x"] - before) > 0.05


def loop_space():
    wide = loop(**LIMITED).with_space({"x": Float(0.3, 4)})
    assert len(wide.history.y) == len(XS)
    assert 0.3 <= wide.ask()["x"] <= 4


def loop_noise():
    made = loop(**LIMITED)
    made.observe({"x": 0.7}, truth(0.7), noise={"p": 0.25})
    assert [float(own.history.noise.tensor()[-1]) for own in made.state.members] == [0.01, 0.25]


def loop_move_cost():
    assert loop(move_cost=1e3).ask()["x"] == loop(move_cost=1e3).recommend()["x"] == 0.5
    assert loop(move_cost=0).ask()["x"] == loop().ask()["x"] != 0.5


# ---------------------------------------------------------------- shell


@pytest.fixture
def shell(tmp_path, capsys):
    """A function that creates a loop in a file with measurements, and returns one for its steps."""
    path = tmp_path / "loop.json"

    def run(step, *argv):
        assert command.main(["loop", step, str(path), *argv]) == 0
        return capsys.readouterr().out

    def new(*words, xs=XS, values=truth, context=None, space="x=0:2"):
        run("new", space, "--unit", "rounds", *words)
        made = Loop.load(path)
        for x in xs:
            made.observe({"x": x}, values(x), context=context and context(x))
        made.save(path)
        return run

    return new


def x_of(text):
    return json.loads(text)["point"]["x"]


LIMITS = ("--objective", "y", "--constraint", "p <= 1")


def shell_limits(shell):
    run = shell(*LIMITS)
    assert 0.7 < x_of(run("recommend")) <= 1.05


def shell_safe(shell):
    run = shell(*LIMITS, "--safe", ".95", "--start", "x=0.5", xs=())
    assert x_of(run("ask")) == 0.5
    run("tell", "y=0.5", "p=0.5")
    found = json.loads(run("ask"))
    assert abs(found["point"]["x"] - 0.5) <= 0.11  # near the safe setting


def shell_objectives(shell):
    run = shell("--objective", "y, -p", space="x=0:2:0.1")
    assert len(run("pareto").splitlines()) > 1


def shell_context(shell):
    words = ("--context", "w=0:2")
    run = shell(*words, values=lambda x: x, context=lambda x: {"w": x})
    assert json.loads(run("ask", "--context", "w=1.25"))["context"] == {"w": 1.25}


def shell_max_step(shell):
    run = shell("--max-step", "x=0.25", values=lambda x: x)
    assert abs(x_of(run("ask")) - 0.5) <= 0.25


def shell_missing(shell):
    run = shell(*LIMITS)
    run("ask")
    assert "y 0.7; time" in run("tell", "y=0.7")
    assert x_of(run("ask")) <= 1.1


def shell_failures(shell):
    run = shell(values=lambda x: x)
    before = x_of(run("ask"))
    assert "failed" in run("tell", "--failed")
    run("observe", "--failed", f"x={before}")
    assert abs(x_of(run("ask")) - before) > 0.05


def shell_space(shell):
    run = shell(xs=())
    run("new", "x=0:4")


def shell_noise(shell):
    run = shell(*LIMITS)
    run("observe", "x=0.7", "y=0.7", "p=0.7", "--noise", "p=0.25")
    assert "{'p': 0.25}" in run("table")
    with pytest.raises(AssertionError):
        run("observe", "x=0.7", "y=0.7", "p=0.7", "--noise", "0.25")


def shell_move_cost(shell):
    run = shell("--move-cost", "x=1000", values=lambda x: x)
    assert x_of(run("ask")) == x_of(run("recommend")) == 0.5


# ---------------------------------------------------------------- Optuna


def study_of(
    directions=("maximize",), high=2.0, limited=False, skip=(), context=None, fail=(), **words
):
    """A study of x, whose trials have the values y or y and p; a constraint is p - 1 <= 0."""
    optuna = pytest.importorskip("optuna")
    from botorch_tv.optuna import DriftSampler

    keys = tuple(context or ())
    words |= {"time_key": "t", "context": keys, "seed": 0, "n_startup_trials": 4}
    sampler = DriftSampler(MODEL, **words)
    study = optuna.create_study(directions=list(directions), sampler=sampler)
    for t, x in enumerate((*XS, *fail)):
        values = {} if t >= len(XS) else {"values": [x, x][: len(directions)]}
        states = optuna.trial.TrialState
        state = states.FAIL if t >= len(XS) else states.COMPLETE
        attributes = {"t": float(t)} | ({} if context is None else {"w": x})
        study.add_trial(
            optuna.trial.create_trial(
                params={"x": x},
                distributions={"x": optuna.distributions.FloatDistribution(0.0, 2.0)},
                user_attrs=attributes,
                system_attrs={"constraints": [x - 1]} if limited and t not in skip else {},
                state=state,
                **values,
            )
        )
    trial = study.ask()
    for name, value in ({"t": 9.0} | (context or {})).items():
        trial.set_user_attr(name, value)
    return study, trial.suggest_float("x", 0.0, high)


def optuna_limits():
    from botorch_tv.optuna import best_now

    study, x = study_of(limited=True)
    assert x <= 1.1
    assert 0.7 < best_now(study).params["x"] <= 1.01


def optuna_safe():
    optuna = pytest.importorskip("optuna")
    p = lambda trial: [trial.params["x"] - 1]  # noqa: E731
    given = sampler(safe=0.95, constraints_func=p, time_key="t", seed=0)
    study, found = optuna.create_study(direction="maximize", sampler=given), []
    for number in range(5):
        trial = study.ask()
        trial.set_user_attr("t", number)
        if number == 0:
            with pytest.raises(ValueError, match=r"none yet; .* in Optuna enqueue a safe trial"):
                trial.suggest_float("x", 0, 2)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial({"x": 0.5})
        else:
            found.append(trial.suggest_float("x", 0, 2))
            study.tell(trial, found[-1])
    assert found[0] == 0.5
    assert 0.5 < max(found) <= 0.9


def optuna_max_step():
    wanted = loop(max_step={"x": 0.25}).ask()["x"]
    assert study_of(max_step={"x": 0.25})[1] == pytest.approx(wanted, abs=1e-6)
    with pytest.raises(InputDataError, match=r"\{'z': 1\}, .* for some of the parameters x"):
        study_of(max_step={"z": 1})


def optuna_move_cost():
    from botorch_tv.optuna import best_now

    study, x = study_of(move_cost={"x": 1e3})
    assert x == best_now(study).params["x"] == 0.5
    with pytest.raises(ValueError, match=ONE):
        study_of(("maximize", "minimize"), move_cost=1)


def optuna_objectives():
    from botorch_tv.optuna import pareto_now, sampler

    trades, sampler.TRADES = sampler.TRADES, 3
    try:
        assert len(pareto_now(study_of(("maximize", "minimize"))[0])) > 1
    finally:
        sampler.TRADES = trades


def optuna_context():
    study, x = study_of(context={"w": 1.25})
    assert 0 <= x <= 2
    point = study.sampler._before[0].answers[-1].point
    assert point[1] == XS[-1]  # the context follows


def optuna_missing():
    study, x = study_of(limited=True, skip=(5,))
    state = study.sampler._before[0].state
    assert [own.history.noise.tensor()[-1].isfinite() for own in state.members] == [True, False]
    assert x <= 1.1


def optuna_failures():
    _, before = study_of()
    assert abs(study_of(fail=(before, before))[1] - before) > 0.05


def optuna_space():
    study, x = study_of(high=1.0)
    assert len(study.sampler._before[0].answers) == len(XS)
    assert 0 <= x <= 1


def sampler(**more):
    pytest.importorskip("optuna")
    from botorch_tv.optuna import DriftSampler

    return DriftSampler(**more)


# ---------------------------------------------------------------- Ax


def ax_client(
    objective="y", limits=None, rows=XS, more=None, without=None, fail=(), sem=None, **words
):
    """A client of x in [0, 2] with the given trials, an hour apart."""
    pytest.importorskip("ax.api.client")
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    ends = {"hour": (0.0, 99.0), "x": (0.0, 2.0)} | (more or {})
    client = Client(random_seed=0)
    client.configure_experiment(
        [RangeParameterConfig(name=n, parameter_type="float", bounds=b) for n, b in ends.items()]
    )
    client.configure_optimization(objective=objective, outcome_constraints=limits)
    client.set_generation_strategy(ax_strategy(**words))
    names = ("y", "p") if limits or "p" in objective else ("y",)
    for hour, x in enumerate((*rows, *fail)):
        index = client.attach_trial({"hour": float(hour), "x": x} | dict.fromkeys(more or {}, x))
        values = {name: x if sem is None or hour < 5 else (x, sem) for name in names}
        if hour == without:
            del values["p"]
        if hour < len(rows):
            client.complete_trial(index, values)
        else:
            client.mark_trial_failed(index)
    return client


def ax_strategy(**more):
    pytest.importorskip("ax.api.client")
    from botorch_tv.ax import adaptive_generation_strategy

    return adaptive_generation_strategy("hour", initialization_trials=4, **more)


def next_of(client, **held):
    ((_, found),) = client.get_next_trials(1, fixed_parameters={"hour": 9.0} | held).items()
    return found


def ax_state(client):
    return client._generation_strategy._nodes[0]._model[0].state


def ax_limits():
    assert next_of(ax_client(limits=["p <= 1"]))["x"] <= 1.1


def ax_safe():
    client, found = ax_client(limits=["p <= 1"], rows=(), safe=0.95), []
    with pytest.raises(InputDataError, match=r"needs a first measurement .* attach a trial in Ax"):
        next_of(client)
    client.complete_trial(client.attach_trial({"hour": 0.0, "x": 0.5}), truth(0.5))
    for hour in (1.0, 2.0, 3.0):
        ((index, made),) = client.get_next_trials(1, fixed_parameters={"hour": hour}).items()
        found.append(made["x"])
        client.complete_trial(index, truth(made["x"]))
    assert 0.5 < max(found) <= 0.9
    with pytest.raises(ValueError, match=r"none yet; in Ax give outcome_constraints"):
        next_of(ax_client(safe=0.95))


def ax_max_step():
    assert next_of(ax_client(max_step={"x": 0.25}))["x"] == pytest.approx(0.75)
    with pytest.raises(InputDataError, match=r"\{'z': 1\}, .* for some of the parameters x"):
        next_of(ax_client(max_step={"z": 1}))


def ax_move_cost():
    from botorch_tv.ax import best_parameterization_now

    client = ax_client(move_cost=1e3)
    assert best_parameterization_now(client, {"hour": 9.0})[0]["x"] == 0.5
    assert best_parameterization_now(ax_client(), {"hour": 9.0})[0]["x"] == 1.4
    assert next_of(client)["x"] == 0.5
    with pytest.raises(ValueError, match=ONE):
        next_of(ax_client("y, -p", move_cost=1))


def ax_objectives():
    from botorch_tv.ax import pareto_frontier_now

    assert len(pareto_frontier_now(ax_client("y, -p"), {"hour": 9.0})) > 1


def ax_context():
    assert next_of(ax_client(more={"w": (0.0, 2.0)}), w=1.25)["w"] == 1.25


def ax_missing():
    client = ax_client(limits=["p <= 1"], without=5)
    assert next_of(client)["x"] <= 1.1
    noise = [own.history.noise.tensor()[-1].isfinite() for own in ax_state(client).members]
    assert noise == [True, False]


def ax_failures():
    before = next_of(ax_client())["x"]
    assert abs(next_of(ax_client(fail=(before, before)))["x"] - before) > 0.05


def ax_space():
    client = ax_client()
    client._experiment.search_space.parameters["x"].update_range(lower=0.0, upper=1.0)
    assert next_of(client)["x"] <= 1
    assert len(client._generation_strategy._nodes[0]._model[0].answers) == len(XS)


def ax_noise():
    client = ax_client(limits=["p <= 1"], sem=0.5)
    next_of(client)
    noise = [float(own.history.noise.tensor()[-1]) for own in ax_state(client).members]
    assert noise == [0.25, 0.25]


# ---------------------------------------------------------------- BoTorch


BOX = Box([(0.0, 2.0)], search=MultiStart(raw_samples=64, restarts=3, evaluations=20))
LINE = torch.linspace(0, 2, 41, dtype=D).view(-1, 1)


def outcomes(objective="y", limits=("p <= 1",), **more):
    return Outcomes(
        names=("y", "p"),
        objectives=parse_objectives(objective),
        limits=parse_limits(limits) if limits else (),
        **{"model": MODEL} | more,
    )


def told(strategy=None, domain=BOX, noise=None, last=(), **more):
    """A strategy and its state after the measurements, and after a last measurement."""
    strategy = outcomes(**more) if strategy is None else strategy
    state = strategy.init(domain)
    for x in (*XS, *last):
        values = truth(x) if isinstance(strategy, Outcomes) else torch.tensor(x, dtype=D)
        X = torch.tensor([x] * domain.columns, dtype=D)
        made = strategy.suggestion_at(state, X)
        state, _ = strategy.tell(state, made, values, noise=noise)
    return strategy, state


def bound(model):
    from botorch.acquisition import UpperConfidenceBound

    return UpperConfidenceBound(model, beta=4.0)


def botorch_limits():
    strategy, state = told()
    models = strategy.as_models(state)
    found = models.models[1].posterior(LINE.unsqueeze(1))
    p = (
        torch.distributions.Normal(found.mean, found.variance.sqrt())
        .cdf(torch.tensor(1.0, dtype=D))
        .flatten()
    )
    torch.testing.assert_close(p, strategy.kept(state, None).each(LINE.unsqueeze(0))[0][0])
    score = torch.where(p >= 0.9, bound(models.models[0])(LINE.unsqueeze(1)), -math.inf)
    assert 0.7 < float(LINE[score.argmax()]) <= 1


def botorch_safe():
    strategy, state = told(safe=True, confidence=0.95)
    kept = strategy.kept(state, None)
    X = LINE[kept.allowed(LINE.unsqueeze(0))[0]]
    assert 0.3 < float(X.max()) <= 1
    assert bound(strategy.as_models(state).models[0])(X.unsqueeze(1)).shape == (len(X),)


def botorch_objectives():
    from botorch.utils.multi_objective.pareto import is_non_dominated

    strategy, state = told(objective="y, -p", limits=())
    mean = strategy.as_models(state).posterior(LINE.unsqueeze(1)).mean.squeeze(1)
    assert int(is_non_dominated(mean * torch.tensor([1.0, -1.0], dtype=D)).sum()) > 1


def botorch_context():
    from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction

    strategy, state = told(MODEL, Box([(0.0, 2.0)], context_dim=1))
    whole = bound(strategy.as_model(state))
    score = FixedFeatureAcquisitionFunction(whole, d=2, columns=[1], values=[1.25])
    both = torch.cat([LINE, torch.full_like(LINE, 1.25)], -1)
    torch.testing.assert_close(score(LINE.unsqueeze(1)), whole(both.unsqueeze(1)))


def botorch_max_step():
    from botorch.optim import optimize_acqf

    strategy, state = told(MODEL)
    bounds = torch.tensor([[0.25], [0.75]], dtype=D)
    few = {"q": 1, "num_restarts": 2, "raw_samples": 16}
    X, _ = optimize_acqf(bound(strategy.as_model(state)), bounds, **few)
    assert float(X) == 0.75


def botorch_missing():
    strategy, state = told()
    made = strategy.suggestion_at(state, torch.tensor([1.8], dtype=D))
    after, _ = strategy.tell(state, made, {"y": 1.8})
    sds = [strategy.as_models(own).posterior(LINE[-3:-2]).variance for own in (state, after)]
    assert float(sds[1][..., 0]) < float(sds[0][..., 0])
    assert float(sds[1][..., 1]) == float(sds[0][..., 1])


def botorch_failures():
    strategy, state = told()
    made = strategy.suggestion_at(state, torch.tensor([1.8], dtype=D))
    after, _ = strategy.tell(state, made, {}, ok=torch.tensor(False))
    first, same = (strategy.as_models(own).posterior(LINE).mean for own in (state, after))
    assert torch.equal(first, same)  # a failure has no value
    success = strategy.success(after, None)
    assert float(success.probability(made.X.view(1, 1, 1))) < 0.8


def botorch_space():
    strategy, state = told()
    strategy.as_models(state).posterior(torch.tensor([[2.5]], dtype=D))


def botorch_noise():
    strategy, state = told(noise={"y": 0.5, "p": 0.001})
    variance = strategy.as_models(state).posterior(LINE[:1]).variance
    assert float(variance[..., 0]) > float(variance[..., 1])


def botorch_move_cost():
    from botorch.acquisition.penalized import L1Penalty, PenalizedAcquisitionFunction

    strategy, state = told(MODEL)
    at = torch.tensor([0.5], dtype=D)
    free = bound(strategy.as_model(state))
    score = PenalizedAcquisitionFunction(free, L1Penalty(at), 1e3)
    X = LINE.unsqueeze(1)
    assert float(LINE[score(X).argmax()]) == 0.5 != float(LINE[free(X).argmax()])


# ---------------------------------------------------------------- study


GRID = Grid.regular(points=7, dim=2)


class Gaps(OutcomesWorld):
    """A world in which the second outcome of every third round is missing."""

    def objectives(self, stream):
        for number, values in enumerate(super().objectives(stream)):
            if number % 3 == 0:
                values.values[:, 1] = math.nan
            yield values


def world(failures=(), constraints="p <= 0.3", kind=OutcomesWorld, grids=(GRID, GRID)):
    worlds = {
        name: MarkovWorld(grid, kernel=KERNEL, epsilon=0.02, noise=0.01)
        for name, grid in zip("yp", grids)
    }
    return kind(worlds, 0.01, constraints=constraints, failures=failures)


def played(strategy, where=None, **more):
    settings = {"trials": 2, "horizon": 12, "seed": 3, "progress": False} | more
    return run_study(where or world(), {"own": strategy}, **settings).data


def study_limits():
    limited, free = (
        played(outcomes(limits=own), record=(Violations(),))["violated"]
        for own in (("p <= 0.3",), ())
    )
    assert float(limited.mean()) < float(free.mean())


def study_objectives():
    found = played(outcomes("y, -p", ()))
    assert len({*found["index"].values.flatten().tolist()}) > 3


def study_missing():
    found = played(outcomes(limits=("p <= 0.3",)), world(kind=Gaps))
    assert bool((found["regret"] >= 0).all())


def study_failures():
    found = played(outcomes(limits=()), world(failures="y >= -0.5", constraints=()))
    assert len({*found["index"].values[0, 0].tolist()}) > 3


# ---------------------------------------------------------------- the table


TOLD = r"Loop.tell\(y, noise=\) takes the variance"
STEPS = r"Loop\(ranges, max_step=\{'heat': 20\}\) limits moves"
CELLS = {
    "limits": (loop_limits, shell_limits, optuna_limits, ax_limits, botorch_limits, study_limits),
    "safe": (
        loop_safe,
        shell_safe,
        optuna_safe,
        ax_safe,
        botorch_safe,
        (
            lambda: played(outcomes(model=ADAPTIVE, safe=True)),
            "a safe strategy needs a first measurement",
        ),
    ),
    "objectives": (
        loop_objectives,
        shell_objectives,
        optuna_objectives,
        ax_objectives,
        botorch_objectives,
        study_objectives,
    ),
    "context": (
        loop_context,
        shell_context,
        optuna_context,
        ax_context,
        botorch_context,
        (lambda: played(MODEL, context={"w": 1.0}), r"keyword argument 'context'; its arguments"),
    ),
    "max_step": (
        loop_max_step,
        shell_max_step,
        optuna_max_step,
        ax_max_step,
        botorch_max_step,
        (lambda: played(MODEL, max_step=1), STEPS),
    ),
    "missing outcome": (
        loop_missing,
        shell_missing,
        optuna_missing,
        ax_missing,
        botorch_missing,
        study_missing,
    ),
    "failures": (
        loop_failures,
        shell_failures,
        optuna_failures,
        ax_failures,
        botorch_failures,
        study_failures,
    ),
    "changed space": (
        loop_space,
        (shell_space, r"exists; give another name"),
        optuna_space,
        ax_space,
        (botorch_space, "lies outside Box"),
        (lambda: world(grids=(GRID, Grid.regular(points=8, dim=2))), "have different grids"),
    ),
    "noise": (
        loop_noise,
        shell_noise,
        (lambda: sampler(noise=0.1), TOLD),
        ax_noise,
        botorch_noise,
        (lambda: played(MODEL, noise=0.1), TOLD),
    ),
    "move_cost": (
        loop_move_cost,
        shell_move_cost,
        optuna_move_cost,
        ax_move_cost,
        botorch_move_cost,
        (lambda: played(MODEL, move_cost=1), STEPS),
    ),
}


def test_no_cell_is_absent():
    assert tuple(CELLS) == ROWS
    assert {len(cells) for cells in CELLS.values()} == {len(COLUMNS)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_a_wish_works_or_is_refused_in_a_sentence(row, column, request, capsys):
    cell = CELLS[row][COLUMNS.index(column)]
    given = (request.getfixturevalue("shell"),) if column == "shell" else ()
    if callable(cell):
        cell(*given)
        return
    call, words = cell
    with pytest.raises(
        (TypeError, ValueError, InputDataError, AssertionError), match=None if given else words
    ):
        call(*given)
    if given:  # a command prints its sentence
        assert "exists; give another name" in capsys.readouterr().err
