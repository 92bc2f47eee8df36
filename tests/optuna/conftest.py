"""Small studies with a time per trial."""

import optuna
import pytest

from botorch_tv import tv_gp_ucb
from botorch_tv.acquisition import Logarithmic
from botorch_tv.simulation.rivals import unit_kernel


@pytest.fixture(autouse=True, scope="package")
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


@pytest.fixture
def given():
    """A strategy with given hyperparameters, for comparison with formulas."""
    parts = {"kernel": unit_kernel("se", 0.3), "width": Logarithmic(0.8, 4.0)}
    return tv_gp_ucb(**parts, noise=0.05, epsilon=0.1)


@pytest.fixture(scope="session")
def run():
    """Run trials of an objective of parameters and time, which is a user attribute."""

    def run(study, objective, times):
        def at(trial, time):
            trial.set_user_attr("t", float(time))
            return objective(trial, time)

        for time in times:
            study.optimize(lambda trial, time=time: at(trial, time), n_trials=1)
        return study

    return run


@pytest.fixture
def logged(caplog):
    """Warnings of Optuna's log."""
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield caplog
    optuna.logging.disable_propagation()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
