"""DriftSampler: Optuna's own tests, strategies, times, workers, refusals."""

import pytest

pytest.importorskip("optuna")

import math
import pickle
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import optuna
import torch
from gpytorch.kernels import RBFKernel
from helpers.child_study import Child
from helpers.missing_packages import not_installed
from helpers.optuna_worker import choose, objective, sampler, work
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.testing import pytest_samplers
from optuna.trial import TrialState, create_trial

from botorch_tv import et_gp_ucb, gp_ei, gp_ts, random_search, sparq_gp_ucb
from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.optuna.trials import TrialClock
from botorch_tv.strategies import Outcomes
from botorch_tv.strategies.expressions import parse_objectives


@pytest.mark.few(1)
class TestContract(
    pytest_samplers.BasicSamplerTestCase,
    pytest_samplers.RelativeSamplerTestCase,
    pytest_samplers.MultiObjectiveSamplerTestCase,
):
    """Optuna's own tests for samplers of one or several objectives."""

    @pytest.fixture
    def sampler(self):
        """Begins to model early, so that few trials suffice to test it."""
        return lambda: DriftSampler(n_startup_trials=2, seed=0)


def hollow(trial, time):
    """A hollow that wanders, `0 <= value <= 1`, on parameters of three kinds."""
    rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
    whole = trial.suggest_int("whole", 1, 11)
    kind = trial.suggest_categorical("kind", ["good", "bad"])
    apart = (math.log10(rate) / 4 + 0.7 - 0.01 * time) ** 2 + ((whole - 4) / 10) ** 2
    return 1 - math.exp(-apart / 0.1) + 0.5 * (kind == "bad")


@pytest.mark.few(1)
@pytest.mark.parametrize("preset", [et_gp_ucb, gp_ei, gp_ts, random_search])
def test_presets_play_values_that_the_space_has(preset, given, run):
    strategy = preset(kernel=given.kernel, noise=0.02)
    sampler = DriftSampler(strategy, time_key="t", n_startup_trials=3, seed=0)
    study = run(optuna.create_study(sampler=sampler), hollow, range(9))
    assert len({tuple(trial.params.values()) for trial in study.trials[3:]}) > 3
    again = DriftSampler(strategy, time_key="t", n_startup_trials=3, seed=0)
    assert run(optuna.create_study(sampler=again), hollow, range(9)).trials[-1].params == (
        study.trials[-1].params
    )


@pytest.mark.full
def test_the_default_strategy_follows_a_moving_minimum(run):
    """Runs of 45 trials differ: 0.2 to 0.7 in the last 12 of each. Three together tell."""
    values = []
    for seed in (1, 2, 3):
        study = optuna.create_study(sampler=DriftSampler(time_key="t", seed=seed))
        run(study, lambda trial, time: 5 + 2 * hollow(trial, time), range(45))
        values += [(trial.value - 5) / 2 for trial in study.trials[-12:]]
        assert best_now(study).params["kind"] == "good"
    assert sum(values) / len(values) < 0.98 / 2  # chance gives 0.98


@pytest.mark.full
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


def test_parameters_that_not_all_trials_have_are_sampled_independently(given, logged):
    sampler = DriftSampler(given, n_startup_trials=2, seed=0)
    study = optuna.create_study(sampler=sampler)
    ranges = {"x": FloatDistribution(0, 1)}
    for x in (0.2, 0.6, 0.8):
        study.add_trial(create_trial(params={"x": x}, distributions=ranges, value=x))
    wider = ranges | {"y": IntDistribution(0, 3)}
    study.add_trial(create_trial(params={"x": 0.4, "y": 2}, distributions=wider, value=0.0))
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    assert "independently" not in logged.text
    assert 0 <= trial.suggest_int("y", 0, 3) <= 3
    assert "Parameter 'y' of trial 4 is sampled independently" in logged.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strategy": 3}, "must be a Strategy"),
        (
            {"strategy": sparq_gp_ucb(kernel=RBFKernel(), noise=0.02)},
            "needs an expert's answers",
        ),
        ({"strategy": "hour"}, "time_key= names the user attribute"),
        (
            {"strategy": Outcomes(names=("y",), objectives=parse_objectives("y"))},
            "for one outcome; .* Optuna states objectives and constraints",
        ),
        ({"unit": 3600}, "positive timedelta"),
        ({"n_startup_trials": 0}, "n_startup_trials"),
        ({"seed": -1}, "seed"),
        ({"lost_after": 60}, "lost_after is 60, but it must be a positive timedelta; give"),
        ({"lost_after": timedelta(0)}, "give timedelta"),
        ({"safe": 1}, "safe is 1, but it must lie strictly between 0 and 1"),
        ({"max_step": {"x": -1}}, r"step of x is -1, but it must lie in \[0, inf\]"),
        ({"move_cost": {"x": -1}}, "move_cost of x is -1, but it must be finite and at least 0"),
    ],
)
def test_arguments_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DriftSampler(**settings)


def test_best_now_refuses_insufficient_data(given):
    study = optuna.create_study()
    with pytest.raises(ValueError, match=r"give best_now\(study, DriftSampler\(\)\)"):
        best_now(study)
    sampler = DriftSampler(given, n_startup_trials=3)
    with pytest.raises(ValueError, match="no parameter with several values"):
        best_now(study, sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    with pytest.raises(ValueError, match="2 trials have a value, but the model needs 3"):
        best_now(study, sampler)
    several = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(ValueError, match=r"several objectives; call pareto_now\(study\)"):
        best_now(several, sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    assert 0 <= best_now(study, sampler).params["x"] <= 1


BEGIN = datetime(2026, 3, 1, 8)
X = {"x": FloatDistribution(0.0, 1.0)}


def stamped(x, y, begun, ended, **attributes):
    trial = create_trial(params={"x": x}, distributions=X, value=y, user_attrs=attributes)
    trial.datetime_start, trial.datetime_complete = begun, ended
    return trial


def test_time_stamps_count_from_start_to_end_in_the_unit():
    trial = stamped(0.5, 1.0, BEGIN, BEGIN + timedelta(minutes=30))
    hours, minutes = TrialClock(None, timedelta(hours=1)), TrialClock(None, timedelta(minutes=1))
    assert hours.measured(trial) - hours.begun(trial) == pytest.approx(0.5, abs=1e-9)
    assert minutes.measured(trial) - minutes.begun(trial) == pytest.approx(30, abs=1e-6)
    assert hours.present(BEGIN, []) == hours.begun(trial)


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process stays what it is")
def test_summer_time_begins_and_ends(monkeypatch):
    clock, hour = TrialClock(None, timedelta(hours=1)), timedelta(hours=1)
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    try:
        time.tzset()
        for change in (datetime(2026, 3, 29), datetime(2026, 10, 25)):
            first = change.replace(tzinfo=UTC) - 3 * hour
            seconds = [(first + n * hour).timestamp() for n in range(9)]
            retained = [datetime.fromtimestamp(second) for second in seconds]  # as Optuna has them
            assert retained[-1] - retained[0] != 8 * hour
            trials = [stamped(0.5, 1.0, stamp, stamp) for stamp in retained]
            begun = [clock.begun(trial) for trial in trials]
            assert [later - begun[0] for later in begun] == pytest.approx(range(9), abs=1e-6)
            stored = [stamp.replace(fold=0) for stamp in retained]  # as a database gives them back
            assert clock.present(stored[-1], []) - clock.present(stored[0], []) == pytest.approx(8)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process stays what it is")
def test_workers_in_two_zones_agree_on_the_times(monkeypatch):
    """Time stamps of most storages have no zone."""
    study = optuna.create_study(sampler=DriftSampler(seed=0))
    clock, begun = TrialClock(None, timedelta(seconds=1)), time.time()
    try:
        for zone in ("UTC-9", "UTC+8") * 2:
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    finally:
        monkeypatch.undo()
        time.tzset()
    times = [when for trial in study.trials for when in (clock.begun(trial), clock.measured(trial))]
    assert begun <= times[0]
    assert times == sorted(times)
    assert times[-1] <= time.time()


def test_first_suggestions_that_run_together_differ_in_a_finite_space():
    study = optuna.create_study(sampler=DriftSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_int("n", 1, 6), n_trials=1)
    assert len({study.ask().suggest_int("n", 1, 6) for _ in range(6)}) == 6


def test_values_with_a_step_are_decimal_numbers():
    study = optuna.create_study(sampler=DriftSampler(seed=0, n_startup_trials=6))
    study.optimize(lambda trial: trial.suggest_float("x", 0.0229, 0.4589, step=0.001), n_trials=8)
    values = [trial.params["x"] for trial in study.trials]
    assert values == [round(value, 4) for value in values]


MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("time_key", [None, "hour"])
@pytest.mark.parametrize(
    ("lost_after", "minutes", "lost"),
    [(None, 19, False), (None, 21, True), (timedelta(hours=1), 59, False), (MINUTE, 2, True)],
)
def test_a_running_trial_counts_until_it_is_lost(given, time_key, lost_after, minutes, lost):
    """By default after ten times the median duration of two minutes."""
    settings = {"time_key": time_key, "n_startup_trials": 3, "seed": 0, "lost_after": lost_after}
    now, found = datetime.now(), []
    for runs in (True, False):
        study = optuna.create_study(sampler=DriftSampler(given, **settings))
        for hour in range(6):
            end = now - timedelta(hours=6 - hour)
            for begun in (end - timedelta(minutes=2), end, end):  # two were added, not run
                study.add_trial(stamped(hour / 6, -hour, begun, end, hour=hour))
        if runs:
            trial = create_trial(params={"x": 1.0}, distributions=X, state=TrialState.RUNNING)
            trial.datetime_start = now - timedelta(minutes=minutes)
            study.add_trial(trial)
        item = study.ask()
        item.set_user_attr("hour", 6)
        found.append(item.suggest_float("x", 0.0, 1.0))
    assert (found[0] == pytest.approx(found[1], abs=1e-4)) == lost


def test_an_attribute_is_both():
    trial = stamped(0.5, 1.0, BEGIN, BEGIN, hour=17)
    clock = TrialClock("hour", timedelta(hours=1))
    assert clock.measured(trial) == clock.begun(trial) == 17.0
    assert clock.present(None, [3.0, 17.0, 5.0]) == 17.0
    assert clock.present(20, [3.0]) == 20.0
    assert TrialClock("day", timedelta(hours=1)).measured(trial) is None


@pytest.mark.parametrize("value", ["noon", True, float("nan"), None])
def test_times_must_be_numbers(given, value):
    study = optuna.create_study(sampler=DriftSampler(given, time_key="hour", n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN, hour=17))
    trial = study.ask()
    message = r"trial 1: user attribute 'hour'"
    if value is None:
        message = r"trial 1 has no .*trial.set_user_attr\('hour', time\)"
    else:
        trial.set_user_attr("hour", value)
    with pytest.raises(ValueError, match=message):
        trial.suggest_float("x", 0.0, 1.0)


def test_complete_trials_without_time_are_dropped_with_a_warning(given, logged):
    study = optuna.create_study(sampler=DriftSampler(given, time_key="hour", n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN, hour=17))
    study.add_trial(stamped(0.9, 50.0, BEGIN, BEGIN))
    assert best_now(study).mean < 2
    assert "trial 1, which has no user attribute 'hour'" in logged.text


def test_time_stamps_and_an_attribute_of_the_same_times_agree(given):
    found = []
    for key in (None, "hour"):
        sampler = DriftSampler(given, time_key=key, n_startup_trials=1, seed=0)
        study = optuna.create_study(sampler=sampler)
        for hour in range(24):
            x, end = hour * 0.618 % 1, BEGIN + timedelta(hours=hour)
            study.add_trial(stamped(x, (x - hour / 24) ** 2, end, end, hour=float(hour)))
        now = 25.0 if key else BEGIN + timedelta(hours=25)
        if key is None:
            with pytest.raises(ValueError, match="give a datetime or None"):
                best_now(study, now=3.0)
        found.append(best_now(study, now=now))
    assert found[0].params["x"] == pytest.approx(found[1].params["x"], abs=1e-4)
    assert found[0].mean == pytest.approx(found[1].mean, abs=1e-6)
    assert found[0].sd == pytest.approx(found[1].sd, abs=1e-6)


@pytest.fixture
def storage(tmp_path):
    name = f"sqlite:///{tmp_path / 'line.db'}"
    optuna.create_study(study_name="line", storage=name)
    return name


def study_of(storage, **settings):
    return optuna.load_study(study_name="line", storage=storage, **settings)


@pytest.mark.full
def test_another_process_suggests_the_same_from_the_same_trials(storage):
    study = study_of(storage, sampler=sampler())
    study.optimize(objective, n_trials=11)
    found = Child(work, storage, trials=0, asks=True).received()
    study.tell(11, state=TrialState.FAIL)  # as if it had never asked
    again = study_of(storage, sampler=sampler())
    copy = optuna.create_study(sampler=study.sampler)  # with all that was remembered
    for trial in again.trials[:11]:
        copy.add_trial(trial)
    x, *others = choose(copy.ask())
    assert others == found[1:]
    # MKL lets several threads share a sum as they happen to be free.
    assert x == (found[0] if torch.get_num_threads() == 1 else pytest.approx(found[0], rel=1e-9))


def test_a_pickled_sampler_suggests_the_same():
    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=7)
    copy = optuna.create_study(sampler=pickle.loads(pickle.dumps(study.sampler)))
    for trial in study.trials:
        copy.add_trial(trial)
    assert choose(copy.ask()) == choose(study.ask())


@pytest.mark.full
def test_two_workers_share_a_storage(storage):
    workers = [Child(work, storage, trials=7, asks=False) for _ in range(2)]
    for worker in workers:
        worker.end()
    study = study_of(storage, sampler=sampler())
    assert [trial.number for trial in study.trials] == list(range(14))
    assert all(trial.state.is_finished() for trial in study.trials)
    own = best_now(study)
    assert set(own.params) == {"c", "n", "x"}
    assert own == best_now(study_of(storage), sampler())


@pytest.mark.full
def test_threads_share_a_sampler():
    study = optuna.create_study(sampler=sampler())
    study.optimize(objective, n_trials=12, n_jobs=3)
    states = [trial.state for trial in study.trials]
    pruned = [TrialState.PRUNED if n % 6 == 5 else TrialState.COMPLETE for n in range(12)]
    assert states == pruned
    assert best_now(study) == best_now(study, sampler())  # given in pieces, and at once


def test_samplers_without_seed_differ():
    first, second = optuna.create_study(), optuna.create_study()
    first.sampler, second.sampler = DriftSampler(), DriftSampler()
    assert first.ask().suggest_float("x", 0, 1) != second.ask().suggest_float("x", 0, 1)


@pytest.mark.full
def test_a_failed_trial_is_not_suggested_again_at_once():
    """A third of the range breaks the machine, and the best lies at its edge."""

    study = optuna.create_study(sampler=sampler())
    for now in range(30):
        trial = study.ask()
        trial.set_user_attr("t", now)
        x = trial.suggest_float("x", 0.0, 1.0)
        study.tell(trial, *((-x,) if x <= 2 / 3 else (None, TrialState.FAIL)))
    for item, following in pairwise(study.trials):
        failed = TrialState.COMPLETE not in (item.state, following.state)
        assert not failed or abs(item.params["x"] - following.params["x"]) > 1e-3
    complete = [trial.state == TrialState.COMPLETE for trial in study.trials]
    assert sum(complete[8:]) >= 12
    assert best_now(study).params["x"] > 0.5


def test_no_setting_is_best_for_one_lucky_trial():
    study = optuna.create_study(direction="maximize", sampler=DriftSampler(time_key="t"))
    rows = [(n / 6, 10 * math.exp(-(((n / 6 - 0.75) / 0.2) ** 2))) for n in range(7)]
    for t, (x, y) in enumerate([*rows, (0.2, 11.0), (0.2, 11.0)]):
        given = {"params": {"x": x}, "distributions": {"x": FloatDistribution(0, 1)}}
        study.add_trial(create_trial(value=y, user_attrs={"t": t}, **given))
        if t > 6:
            assert best_now(study).params["x"] == pytest.approx([0.75, 0.2][t - 7], abs=0.1)


def test_the_import_error_has_the_install_command():
    with (
        not_installed("optuna"),
        pytest.raises(ImportError, match=r"pip install 'botorch-tv\[optuna\]'"),
    ):
        import botorch_tv.optuna  # noqa: F401


def test_the_rest_does_without():
    with not_installed("optuna"):
        import botorch_tv.strategies  # noqa: F401
