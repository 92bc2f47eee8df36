"""Another process at work on a study."""

from multiprocessing.connection import Connection
from typing import Any

import optuna

from botorch_tv.optuna import DriftSampler


def sampler():
    return DriftSampler(time_key="t", n_startup_trials=4, seed=3)


def choose(trial):
    trial.set_user_attr("t", float(trial.number))
    x = trial.suggest_float("x", 1e-3, 1.0, log=True)
    n = trial.suggest_int("n", 0, 9)
    c = trial.suggest_categorical("c", ["a", "b", "c"])
    return [x, n, c]


def objective(trial):
    x, n, c = choose(trial)
    if trial.number % 6 == 5:
        raise optuna.TrialPruned
    return (x - 0.1 - 0.02 * trial.number) ** 2 + (n / 9 - 0.4) ** 2 + 0.3 * (c != "b")


def work(pipe: Connection, storage: str, settings: dict[str, Any]) -> None:
    """Run trials of a stored study, and print the next suggestion."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="line", storage=storage, sampler=sampler())
    if settings["trials"]:
        study.optimize(objective, n_trials=settings["trials"])
    pipe.send(choose(study.ask()) if settings["asks"] else None)
