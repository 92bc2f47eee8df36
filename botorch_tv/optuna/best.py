"""The best parameters, as the objective is now."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from optuna.study import Study

from botorch_tv.inference.modes import without_gradients
from botorch_tv.optuna.sampler import DriftSampler
from botorch_tv.optuna.space import StudySpace
from botorch_tv.validation import require


class BestNow(NamedTuple):
    """The parameters expected to be best at present.

    Attributes:
        params: In the study's own units and categories.
        mean: Predicted there, in the units of the objective.
        sd: Standard deviation of that prediction, without observation noise.
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
    """The parameters whose posterior mean is best at the present time, tried or not.

    ``study.best_trial`` compares values as they were when they were measured, and an old success
    stays the best for ever.

    Args:
        study: Its trials are all that is known.
        sampler: Whose model is asked; the study's own unless given.
        now: The present, as trials have their times: a datetime where these are time stamps, by
            default that of the call; a number where they are a user attribute, by default that of
            the newest trial. One before the newest trial is taken for that.

    Raises:
        ValueError: If the study has several objectives or no parameter in common, its sampler is
            another one, or too few trials have a value.
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
        valued >= sampler.startup,
        f"best_now: {valued} trials have a value, but the model begins with "
        f"{sampler.startup}; run more, or lower n_startup_trials.",
    )
    present = known.time(sampler.clock.present(now, [time for time, _ in known.sorted.valued]))
    strategy, state = known.history.strategy, known.history.state
    X = strategy.recommend(state, now=present)
    posterior = strategy.posterior(state, X.unsqueeze(0), now=present)
    mean, sd = float(posterior.mean), float(posterior.variance) ** 0.5
    center, scale, _ = known.unit
    return BestNow(space.params(X), center + scale * mean, scale * sd)
