"""Ax with time as a parameter that is fixed at the present when it is asked."""

from __future__ import annotations

import logging

import numpy as np
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.utils.common.logger import set_ax_logger_levels

from benchmarks.peers.protocol import Peer

set_ax_logger_levels(logging.ERROR)
HORIZON = 100.0
"""The last time that its search space has: it wants a bound."""


class TimeFixed(Peer):
    """A client that is asked for a trial at a time and chooses its methods itself."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        self.client = Client(random_seed=seed)
        names = [f"x{i}" for i in range(dim)]
        parameters = [
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
            for name in names
        ]
        time = RangeParameterConfig(name="time", parameter_type="float", bounds=(0.0, HORIZON))
        self.names = names
        self.client.configure_experiment(parameters=[*parameters, time])
        self.client.configure_optimization(objective="y")

    def ask(self, now: float) -> np.ndarray:
        asked = self.client.get_next_trials(max_trials=1, fixed_parameters={"time": now})
        ((self.trial, chosen),) = asked.items()
        return np.array([chosen[name] for name in self.names])

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        self.client.complete_trial(self.trial, raw_data={"y": y})
