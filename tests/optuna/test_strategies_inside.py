"""Any strategy may sit inside, and each study says whether it is maximised."""

import math

import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import create_trial

from botorch_tv import (
    et_gp_ucb,
    gp_ei,
    gp_ts,
    random_search,
    sparq_gp_ucb,
    sw_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)
from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.optuna.sampler import default_strategy, learning_strategy
from botorch_tv.optuna.trials import StudySpace
from botorch_tv.strategies.adaptive import Adaptive


def hollow(trial, time):
    """A hollow that wanders, `0 <= value <= 1`, on parameters of three kinds."""
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    whole = trial.suggest_int("whole", 1, 11)
    kind = trial.suggest_categorical("kind", ["good", "bad"])
    apart = (math.log10(rate) / 4 + 0.7 - 0.01 * time) ** 2 + ((whole - 4) / 10) ** 2
    return 1 - math.exp(-apart / 0.1) + 0.5 * (kind == "bad")


PRESETS = {
    "et_gp_ucb": lambda kernel: et_gp_ucb(kernel=kernel, noise=0.02),
    "gp_ei": lambda kernel: gp_ei(kernel=kernel, noise=0.02),
    "gp_ts": lambda kernel: gp_ts(kernel=kernel, noise=0.02, B=1.0, delta=0.1),
    "random_search": lambda kernel: random_search(kernel=kernel, noise=0.02),
    "sw_gp_ucb": lambda kernel: sw_gp_ucb(kernel=kernel, noise=0.02, window=9, B=1, delta=0.1),
    "ui_tvbo": lambda kernel: ui_tvbo(kernel=kernel, noise=0.02, sigma_w2=0.01),
    "w_gp_ucb": lambda kernel: w_gp_ucb(kernel=kernel, noise=0.02, gamma=0.9, B=1, delta=0.1),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_play_values_that_the_space_has(name, given, run):
    strategy = PRESETS[name](given.kernel)
    sampler = DriftSampler(strategy, time_key="t", n_startup_trials=3, seed=0)
    study = run(optuna.create_study(sampler=sampler), hollow, range(9))
    assert len({tuple(trial.params.values()) for trial in study.trials[3:]}) > 3
    again = DriftSampler(strategy, time_key="t", n_startup_trials=3, seed=0)
    assert run(optuna.create_study(sampler=again), hollow, range(9)).trials[-1].params == (
        study.trials[-1].params
    )


def test_the_learning_strategy_follows_a_moving_minimum(run):
    sampler = DriftSampler(learning_strategy(), time_key="t", seed=1)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    run(study, lambda trial, time: 5 - 2 * hollow(trial, time), range(45))
    values = [abs(trial.value - 5) / 2 for trial in study.trials]
    assert sum(values[-12:]) / 12 < 0.35  # chance gives 0.98
    best = best_now(study)
    assert best.params["kind"] == "good"
    assert abs(best.params["whole"] - 4) <= 2
    # now it is at rate = 10 ** (4 * (0.44 - 0.7))
    assert abs(math.log10(best.params["rate"]) / 4 + 0.26) < 0.15


def test_the_default_strategy_follows_a_moving_minimum(run):
    """Runs of 45 trials differ: 0.2 to 0.7 in the last 12 of each. Three together tell."""
    values = []
    for seed in (1, 2, 3):
        study = optuna.create_study(sampler=DriftSampler(time_key="t", seed=seed))
        run(study, lambda trial, time: 5 + 2 * hollow(trial, time), range(45))
        values += [(trial.value - 5) / 2 for trial in study.trials[-12:]]
        assert best_now(study).params["kind"] == "good"
    assert sum(values) / len(values) < 0.98 / 2  # chance gives 0.98


def test_default_is_adaptive_as_far_as_that_goes():
    assert isinstance(default_strategy(20), Adaptive)
    assert default_strategy(21).learning is not None


def test_units_of_values_and_time_do_not_matter_by_default(run):
    def many(trial, time):
        return sum((trial.suggest_float(f"x{i}", 0, 1) - 0.3) ** 2 for i in range(21))

    found = []
    for scale, offset, tempo in ((1.0, 0.0, 1.0), (4.0**6, 2.0**44, 8.0)):
        sampler = DriftSampler(time_key="t", n_startup_trials=4, seed=2)
        study = optuna.create_study(sampler=sampler)
        run(
            study,
            lambda trial, time, scale=scale, offset=offset: offset + scale * many(trial, time),
            [tempo * step for step in range(10)],
        )
        found.append((study.trials[-1].params, best_now(study)))
    (params, best), (other_params, other_best) = found
    assert other_params == pytest.approx(params, abs=1e-4)
    assert (other_best.mean - 2.0**44) / 4.0**6 == pytest.approx(best.mean, abs=1e-4)
    assert other_best.sd == pytest.approx(4.0**6 * best.sd, rel=1e-3)


def test_the_first_eight_trials_by_number_set_the_units(monkeypatch):
    """However a storage lists them: the first eight of them do, and the ninth does not."""
    ranges = {f"x{i}": FloatDistribution(0, 1) for i in range(21)}
    study = optuna.create_study(sampler=DriftSampler(time_key="t", n_startup_trials=20))
    for number in range(9):
        params = dict.fromkeys(ranges, 0.1 * number)
        study.add_trial(
            create_trial(
                params=params, distributions=ranges, user_attrs={"t": 1.0}, value=2.0**number
            )
        )
    listed = study.get_trials()
    monkeypatch.setattr(study, "get_trials", lambda **_: listed[::-1])
    data = study.sampler._data(study, StudySpace(ranges))
    assert data.unit[0] == pytest.approx((2**8 - 1) / 8)


def test_parameters_that_not_all_trials_have_are_sampled_independently(given, caplog):
    sampler = DriftSampler(given, n_startup_trials=2, seed=0)
    study = optuna.create_study(sampler=sampler)
    ranges = {"x": FloatDistribution(0, 1)}
    for x in (0.2, 0.6, 0.8):
        study.add_trial(create_trial(params={"x": x}, distributions=ranges, value=x))
    wider = ranges | {"y": IntDistribution(0, 3)}
    study.add_trial(create_trial(params={"x": 0.4, "y": 2}, distributions=wider, value=0.0))
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    assert "independently" not in caplog.text
    assert 0 <= trial.suggest_int("y", 0, 3) <= 3
    optuna.logging.disable_propagation()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert "Parameter 'y' of trial 4 is sampled independently" in caplog.text


def test_startup_fills_the_space(given):
    sampler = DriftSampler(given, n_startup_trials=16, seed=5)
    study = optuna.create_study(sampler=sampler)
    space = {"x": FloatDistribution(0, 1), "n": IntDistribution(1, 4)}
    for _ in range(16):
        trial = study.ask(space)
        study.tell(trial, 0.0)
    # The first is drawn before the space is data.
    cells = {(int(4 * item.params["x"]), item.params["n"]) for item in study.trials[1:]}
    assert len(cells) >= 13  # chance: 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": 3}, "must be a Strategy"),
        ({"strategy": "hour"}, "time_key= is the user attribute"),
        ({"unit": 3600}, "positive timedelta"),
        ({"n_startup_trials": 0}, "n_startup_trials"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DriftSampler(**settings)


def test_experts_have_no_place(given):
    strategy = sparq_gp_ucb(kernel=given.kernel, noise=0.02)
    with pytest.raises(ValueError, match=r"consults an expert or needs the member"):
        DriftSampler(strategy)


def test_best_now_refuses_insufficient_data(given):
    study = optuna.create_study()
    with pytest.raises(ValueError, match=r"give best_now\(study, DriftSampler\(\)\)"):
        best_now(study)
    sampler = DriftSampler(given, n_startup_trials=3)
    with pytest.raises(ValueError, match="no parameter with the same distribution"):
        best_now(study, sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    with pytest.raises(ValueError, match="2 trials have a value, but the model needs 3"):
        best_now(study, sampler)
    several = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match="multi-objective"):
        best_now(several, sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    assert 0 <= best_now(study, sampler).params["x"] <= 1
