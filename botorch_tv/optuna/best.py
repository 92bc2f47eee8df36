"""The best parameters for the current objective."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from optuna.study import Study

from botorch_tv.inference.tensors import without_gradients
from botorch_tv.optuna.sampler import DriftSampler
from botorch_tv.optuna.space import StudySpace
from botorch_tv.strategies.outcomes import recommended
from botorch_tv.validation import require


class BestNow(NamedTuple):
    """The parameters expected to be best at present.

    Attributes:
        params: In the study's own units and categories.
        mean: Predicted mean, in the units of the objective.
        sd: Predicted standard deviation, without observation noise.
    """

    params: dict[str, Any]
    mean: float
    sd: float


@without_gradients
def best_now(
    study: Study,
    sampler: DriftSampler | None = None,
    *,
    now: float | datetime | None = None,
) -> BestNow:
    """The parameters with the best lower bound, mean - sd / 2, at the present time, tried or not.

    When minimising, mean + sd / 2. Settings that are likelier to fail than to succeed are left out.

    ``study.best_trial`` compares values as they were when they were measured, so an old success
    stays the best forever.

    Args:
        study: The study.
        sampler: The sampler whose model is used; the study's own by default.
        now: The present, on the clock of the trials: a datetime if they have time stamps, by
            default the time of the call; a number if they use a user attribute, by default that of
            the newest trial. Earlier times are replaced by that of the newest trial.

    Raises:
        ValueError: If the study has several objectives or no common parameter, its sampler is not
            a ``DriftSampler``, too few trials have a value, or every setting is likelier to fail
            than to succeed.
    """
    sampler = study.sampler if sampler is None else sampler  # type: ignore[assignment]
    require(
        isinstance(sampler, DriftSampler),
        f"best_now: the study's sampler is {sampler}, which knows no present; pass one, "
        "best_now(study, DriftSampler()).",
    )
    assert isinstance(sampler, DriftSampler)
    sampler._raise_error_if_multi_objective(study)
    space = StudySpace(sampler.common(study))
    require(
        space.columns > 0,
        "best_now: no parameter is in all complete trials with the same choice of values; run "
        "trials that have one in common.",
    )
    known = sampler.known(study, space)
    valued = len(known.sorted.valued)
    require(
        sampler.begins(known.sorted),
        f"best_now: {valued} trials have a value, but the model begins with "
        f"{sampler.startup}; run more, or lower n_startup_trials.",
    )
    present = known.time(sampler.clock.present(now, [time for time, _ in known.sorted.valued]))
    strategy, state = known.history.strategy, known.history.state
    chance = sampler.success(known, present)
    X = recommended(strategy, state, present, None, chance)
    require(
        chance is None or not chance.fails,
        "best_now: every setting is likelier to fail than to succeed; run more trials.",
    )
    posterior = strategy.posterior(state, X.unsqueeze(0), now=present)
    mean, sd = float(posterior.mean), float(posterior.variance) ** 0.5
    center, scale, _ = known.unit
    return BestNow(space.params(X), center + scale * mean, scale * sd)
