"""Times of trials and the present time."""

import time
from datetime import UTC, datetime, timedelta

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import create_trial

from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.optuna.trials import TrialClock

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


def test_an_attribute_is_both():
    trial = stamped(0.5, 1.0, BEGIN, BEGIN, hour=17)
    clock = TrialClock("hour", timedelta(hours=1))
    assert clock.measured(trial) == clock.begun(trial) == 17.0
    assert clock.present(None, [3.0, 17.0, 5.0]) == 17.0
    assert clock.present(20, [3.0]) == 20.0
    assert TrialClock("day", timedelta(hours=1)).measured(trial) is None


def test_a_new_trial_without_time_is_refused_with_a_fix(given):
    study = optuna.create_study(sampler=DriftSampler(given, time_key="hour", n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN, hour=17))
    with pytest.raises(ValueError, match=r"trial 1 has no .*trial.set_user_attr\('hour', time\)"):
        study.ask(X)


@pytest.mark.parametrize("value", ["noon", True, float("nan"), [1.0]])
def test_times_must_be_numbers(given, value):
    study = optuna.create_study(sampler=DriftSampler(given, time_key="hour", n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN, hour=17))
    trial = study.ask()
    trial.set_user_attr("hour", value)
    with pytest.raises(ValueError, match=r"trial 1: user attribute 'hour'"):
        trial.suggest_float("x", 0.0, 1.0)


def test_complete_trials_without_time_are_dropped_with_a_warning(given, caplog):
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=DriftSampler(given, time_key="hour", n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN, hour=17))
    study.add_trial(stamped(0.9, 50.0, BEGIN, BEGIN))
    assert best_now(study).mean < 2
    optuna.logging.disable_propagation()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    assert "trial 1, which has no user attribute 'hour'" in caplog.text


def test_time_stamps_and_an_attribute_of_the_same_times_agree(given):
    found = []
    for key in (None, "hour"):
        sampler = DriftSampler(given, time_key=key, n_startup_trials=1, seed=0)
        study = optuna.create_study(sampler=sampler)
        for hour in range(24):
            x, end = hour * 0.618 % 1, BEGIN + timedelta(hours=hour)
            study.add_trial(stamped(x, (x - hour / 24) ** 2, end, end, hour=float(hour)))
        now = 25.0 if key else BEGIN + timedelta(hours=25)
        found.append(best_now(study, now=now))
    assert found[0].params["x"] == pytest.approx(found[1].params["x"], abs=1e-4)
    assert found[0].mean == pytest.approx(found[1].mean, abs=1e-6)
    assert found[0].sd == pytest.approx(found[1].sd, abs=1e-6)


@pytest.mark.parametrize("now", [3.0, "now"])
def test_a_present_that_is_no_time_stamp_is_refused(given, now):
    study = optuna.create_study(sampler=DriftSampler(given, n_startup_trials=1))
    study.add_trial(stamped(0.5, 1.0, BEGIN, BEGIN))
    with pytest.raises(ValueError, match="give a datetime or None"):
        best_now(study, now=now)
