"""The adaptive strategy as a node of an Ax generation strategy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from ax.core.base_trial import BaseTrial
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.objective import Objective
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.trial import Trial
from ax.core.trial_status import TrialStatus
from ax.core.types import TParameterization
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.external_generation_node import ExternalGenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import InputDataWarning

from botorch_tv.ax.clock import check_fixed, check_now, check_search_space
from botorch_tv.ax.space import TrialSpace
from botorch_tv.inference.mixture.units import FIRST
from botorch_tv.inference.tensors import without_gradients
from botorch_tv.strategies.adaptive import adaptive_gp_ucb
from botorch_tv.strategies.mixed.history import RECENT, Ended, TrialHistory, TrialRow
from botorch_tv.strategies.mixed.retrial import retried
from botorch_tv.strategies.outcomes import avoiding, elsewhere
from botorch_tv.validation import require, require_integer


def adaptive_generation_strategy(
    time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
) -> GenerationStrategy:
    """A strategy for Ax that needs no prior knowledge and discounts old trials.

    It is :func:`~botorch_tv.strategies.adaptive_gp_ucb`: no kernel, noise, scale or rate of change,
    and nothing is fitted. Parameters may be numbers, also on logarithmic scales, integers and
    choices, up to 20 columns, where a choice among k takes k - 1. Time is a range parameter, as for
    :func:`time_varying_generation_strategy`. Noise is learned, so standard errors that come with
    measurements are not used; that strategy uses them.

    Args:
        time_parameter: Name of that parameter.
        initialization_trials: Measured trials before which points fill the space, at least 2.
        seed: Of these points.

    Returns:
        A strategy for ``client.set_generation_strategy``, saved and loaded with the client.

    Raises:
        ValueError: If ``time_parameter`` is empty, or a number out of range.

    Example:
        >>> client.set_generation_strategy(adaptive_generation_strategy("hour"))
        >>> trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
        >>> best_now(client, {"hour": now})
    """
    node = AdaptiveNode(time_parameter, initialization_trials, seed)
    return GenerationStrategy(name="AdaptiveGPUCB", nodes=[node])


class AdaptiveNode(ExternalGenerationNode):  # type: ignore[misc]
    """The node of :func:`adaptive_generation_strategy`, for combination with other nodes.

    Running trials are treated as if their result were the predicted mean (Desautels et al., 2014),
    so that the next trial goes elsewhere; recent early-stopped ones as if it were the median of all
    values, or the predicted mean if that is worse. Failed trials lower the probability that trials
    near them succeed, see :mod:`botorch_tv.strategies.outcomes`, and say nothing about values.
    Suggestions depend only on the experiment.

    Args:
        time_parameter: See :func:`adaptive_generation_strategy`.
        initialization_trials: See :func:`adaptive_generation_strategy`.
        seed: See :func:`adaptive_generation_strategy`.
    """

    def __init__(
        self, time_parameter: str, initialization_trials: int = FIRST, seed: int = 0
    ) -> None:
        require(bool(time_parameter), "time_parameter is empty; name the parameter that is time.")
        super().__init__(
            name="Adaptive",
            suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
            should_deduplicate=False,  # settings are tried again, since they may have changed
        )
        self.time_parameter = time_parameter
        self.initialization_trials = require_integer(
            "initialization_trials", initialization_trials, 2, "a spread takes two."
        )
        self.seed = require_integer("seed", seed, 0, "give a whole number.")
        self._history: TrialHistory | None = None
        self._begun: Experiment | None = None
        self._failed: list[Ended] = []
        self._stopped: list[Ended] = []
        self._made = 0
        self._now: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The attributes, without what can be recomputed from the experiment."""
        return self.__dict__ | {
            "_history": None,
            "_begun": None,
            "_failed": [],
            "_stopped": [],
        }

    # ---------------------------------------------------------------- what Ax asks

    def _gen(
        self,
        experiment: Experiment,
        *,
        fixed_features: ObservationFeatures | None = None,
        **rest: Any,
    ) -> GeneratorRun:
        given = {} if fixed_features is None else fixed_features.parameters
        now = given.get(self.time_parameter)
        check_fixed(now, self.time_parameter)
        assert now is not None
        others = sorted(set(given) - {self.time_parameter})
        if others:
            raise UserInputError(
                f"fixed_parameters has {others}, but the adaptive strategy chooses all but "
                f"{self.time_parameter!r}; make them fixed parameters of the experiment."
            )
        check_now(now, experiment.search_space.parameters[self.time_parameter])
        self._now = float(now)
        # Of several asked for at once, the experiment has none yet.
        self._made = max(self._made, len(experiment.trials))
        return super()._gen(experiment=experiment, **rest)

    @without_gradients
    def update_generator_state(self, experiment: Experiment, data: Data) -> None:
        """Tell the strategy of all trials that have ended since.

        Raises:
            UserInputError: If the parameter of time is missing or unfit, or there is no objective.
            UnsupportedError: If parameters, objective or constraints are not supported.
        """
        check_search_space(experiment.search_space, self.time_parameter)
        objective = _objective(experiment.optimization_config)
        (metric, weight), history = objective.metric_weights[0], self._history
        maximize, space = weight > 0, TrialSpace(experiment.search_space, self.time_parameter)
        before = None if history is None else (history.strategy.maximize, history.space)
        if history is None or before != (maximize, space) or self._begun is not experiment:
            strategy = adaptive_gp_ucb(maximize=maximize, starts=self.initialization_trials)
            history, self._begun = TrialHistory.begin(strategy, space), experiment
        assert isinstance(history.space, TrialSpace)
        rows = measured(experiment, data, metric, history.space, self.time_parameter)
        self._history = history.brought_to(rows)
        trials = experiment.trials.values()
        recent = [one for one in trials if one.status.is_terminal][-RECENT:]
        self._failed = self._ended(trials, TrialStatus.FAILED)
        self._stopped = self._ended(recent, TrialStatus.EARLY_STOPPED)

    def _ended(self, trials: Iterable[BaseTrial], status: TrialStatus) -> list[Ended]:
        """When and where trials ended without a value."""
        assert self._history is not None
        space = self._history.space
        assert isinstance(space, TrialSpace)
        ended = [one for one in trials if one.status == status and isinstance(one, Trial)]
        settings = [one.arm.parameters for one in ended if one.arm]
        return [
            (float(one[self.time_parameter]), space.place(one))
            for one in settings
            if space.covers(one)
        ]

    def likely(self, points: list[TParameterization], now: float) -> list[bool]:
        """Which settings are likelier to succeed than to fail."""
        if self._history is None:  # another node predicts
            return [True] * len(points)
        chance, space = self._history.success(self._failed, now), self._history.space
        assert isinstance(space, TrialSpace)
        if chance is None or chance.fails:
            return [chance is None] * len(points)
        places = [space.place(one) for one in points]
        X = torch.tensor(places, dtype=torch.float64, device="cpu")
        likely: list[bool] = chance.strict().allows(X).tolist()
        return likely

    @without_gradients
    def get_next_candidate(self, pending_parameters: list[TParameterization]) -> TParameterization:
        """The parameters to try at the given time.

        Args:
            pending_parameters: Parameters of running trials.
        """
        history, now = self._history, self._now
        assert history is not None
        assert now is not None
        assert isinstance(history.space, TrialSpace)
        space, number = history.space, self._made
        self._made += 1
        if len(history.rows) < self.initialization_trials:
            X = space.filling(number, self.seed)
        else:
            now = max(now, float(history.state.time))
            running = [space.place(one) for one in pending_parameters if space.covers(one)]
            state = history.as_if_ended(self._stopped, running, now)
            chance = history.success(self._failed, now)
            ask = partial(history.quiet.ask, avoiding(retried(state), chance), now=now)
            X = elsewhere(history.quiet, state, now, ask, chance).X
        return space.parameterization(X) | {self.time_parameter: self._now}

    # ---------------------------------------------------------------- what people ask

    @without_gradients
    def predicted(
        self, experiment: Experiment, points: list[TParameterization], now: float
    ) -> list[tuple[float, float]]:
        """Mean of the objective at some settings now, and its standard deviation without noise.

        Args:
            experiment: All that is known.
            points: Settings, with or without a time, which is not looked at.
            now: The present, from the newest trial on.

        Raises:
            UserInputError: If fewer trials are measured than units take, or ``now`` lies before
                one.
        """
        self.update_generator_state(experiment, experiment.lookup_data())
        history = self._history
        assert history is not None
        assert isinstance(history.space, TrialSpace)
        if len(history.rows) < self.initialization_trials:
            raise UserInputError(
                f"{len(history.rows)} trials are measured, but the model begins with "
                f"{self.initialization_trials}; run more, or lower initialization_trials."
            )
        newest = float(history.state.time)
        if now < newest:
            raise UserInputError(
                f"{self.time_parameter!r} is {now}, but a trial was measured at {newest}; give the "
                "present time."
            )
        X = torch.tensor(
            [history.space.place(one) for one in points], dtype=torch.float64, device="cpu"
        )
        posterior = history.strategy.posterior(history.state, X, now=now)
        sd = posterior.variance.clamp_min(0).sqrt().squeeze(-1)
        return list(zip(posterior.mean.squeeze(-1).tolist(), sd.tolist()))


def measured(
    experiment: Experiment, data: Data, metric: str, space: TrialSpace, time_parameter: str
) -> list[TrialRow]:
    """The trials in the search space that have ended with a value."""
    frame = data.df
    rows = frame[frame["metric_name"] == metric] if len(frame) else frame
    values = dict(zip(rows["trial_index"], rows["mean"])) if len(rows) else {}
    found = []
    for index, trial in experiment.trials.items():
        value = float(values.get(index, math.nan))
        if (
            trial.status != TrialStatus.COMPLETED
            or not isinstance(trial, Trial)
            or not math.isfinite(value)
        ):
            continue
        parameters = trial.arm.parameters
        if not space.covers(parameters):
            warnings.warn(
                f"Trial {index} has {parameters}, which is out of the search space, so the "
                "adaptive strategy leaves it out; configure an experiment whose ranges hold it.",
                InputDataWarning,
                stacklevel=2,
            )
            continue
        time = float(parameters[time_parameter])
        found.append(TrialRow(time, index, space.place(parameters), value))
    return found


def _objective(config: OptimizationConfig | None) -> Objective:
    """The one objective.

    Raises:
        UserInputError: If there is none.
        UnsupportedError: If there are several, or constraints on outcomes.
    """
    if config is None:
        raise UserInputError("There is no objective; call client.configure_optimization first.")
    single = not config.objective.is_multi_objective and len(config.objective.metric_weights) == 1
    if not single or config.outcome_constraints:
        raise UnsupportedError(
            f"The objective is {config.objective.expression!r} with the constraints "
            f"{config.outcome_constraints}, but the adaptive strategy takes one outcome and no "
            "constraint; use time_varying_generation_strategy, which knows both."
        )
    return config.objective
