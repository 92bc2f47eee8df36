"""A small experiment in Ax with a time per trial."""

import numpy as np
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from botorch_tv.ax import time_varying_generation_strategy


def experiment(
    objective="y",
    horizon=100.0,
    parameters=(),
    constraints=None,
    initialization_trials=3,
    time_parameter="t",
    **options,
):
    """A client of x in [-1, 1], t in [0, horizon] and y, with a cheap search for the best."""
    client = Client(random_seed=1)
    time = RangeParameterConfig(name="t", parameter_type="float", bounds=(0.0, horizon))
    x = RangeParameterConfig(name="x", parameter_type="float", bounds=(-1.0, 1.0))
    client.configure_experiment(parameters=parameters or [time, x])
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    strategy = time_varying_generation_strategy(
        time_parameter, initialization_trials=initialization_trials, seed=0, **options
    )
    for node in strategy._nodes[1:]:
        few = {"optimizer_kwargs": {"num_restarts": 2, "raw_samples": 32}}
        node.generator_spec.generator_gen_kwargs["model_gen_options"] = few
    client.set_generation_strategy(strategy)
    return client


def ask(client, now, time_parameter="t"):
    """The index and parameters of a new trial."""
    trials = client.get_next_trials(max_trials=1, fixed_parameters={time_parameter: now})
    return next(iter(trials.items()))


def tell(client, rows):
    """Attach trials measured elsewhere, rows of (t, x, y)."""
    for t, x, y in rows:
        index = client.attach_trial(parameters={"t": float(t), "x": float(x)})
        client.complete_trial(trial_index=index, raw_data={"y": y})
    return client


def model_of(client):
    """The BoTorch model inside a client that has suggested something."""
    return client._generation_strategy.adapter.generator.surrogate.model


def acquisition_of(client):
    """The acquisition function of the last suggestion."""
    return client._generation_strategy.adapter.generator._acquisition.acqf


def dense_prediction(model, epsilon, rows, now, x_new):
    """Mean and variance of y now, from rows of (t, x, y) and learned Markov hyperparameters."""
    lengthscale = model.covar_module.spatial.lengthscale.item()
    noise, constant = model.likelihood.noise.item(), model.mean_module.constant.item()

    def covariance(T1, X1, T2, X2):
        space = (X1[:, None] - X2) / 2 / lengthscale  # [-1, 1] scaled to the unit interval
        time = np.abs(T1[:, None] - T2)
        return np.exp(-0.5 * space**2) * (1 - epsilon) ** (time / 2)

    T, X, y = np.array(rows).T
    centre, spread = y.mean(), y.std(ddof=1)
    x_new = np.array(x_new)
    cross = covariance(np.full(len(x_new), now), x_new, T, X)
    weights = np.linalg.solve(covariance(T, X, T, X) + noise * np.eye(len(y)), cross.T).T
    mean = centre + spread * (constant + weights @ ((y - centre) / spread - constant))
    return mean, spread**2 * (1 - (weights * cross).sum(-1))
