"""A process is measured once an hour, and its best temperature drifts."""

from __future__ import annotations

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    hour = float(trial.number)
    trial.set_user_attr("hour", hour)
    temperature = trial.suggest_float("temperature", 20.0, 80.0)
    catalyst = trial.suggest_categorical("catalyst", ["A", "B"])
    best = 35.0 + 0.5 * hour
    return 90.0 - ((temperature - best) / 10) ** 2 - 5.0 * (catalyst == "B")


if __name__ == "__main__":
    module = optunahub.load_module(package="samplers/botorch_tv_drift")
    sampler = module.DriftSampler(time_key="hour", seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=40)

    print("best value ever measured:", study.best_params)
    print("predicted to be best in hour 40:", module.best_now(study, now=40.0).params)
