"""Trials that were run at another time than they were suggested for."""

from __future__ import annotations

from collections.abc import Mapping

from ax.api.client import Client
from ax.api.types import TOutcome
from ax.core.parameter import RangeParameter
from ax.exceptions.core import UserInputError

from botorch_tv.ax.best import timed
from botorch_tv.ax.clock import check_now
from botorch_tv.validation import require_number, shown


def complete_trial_at(
    client: Client, trial_index: int, raw_data: TOutcome, fixed_parameters: dict[str, float]
) -> int:
    """Complete a trial with its measurements and the time they were made.

    A trial of Ax keeps the parameters it was suggested with. Where the time turned out to be
    another one, a second trial is attached with the same setting and the true time, and the one
    suggested is abandoned, so that only the true one counts.

    Args:
        client: The client.
        trial_index: The trial that was suggested.
        raw_data: What was measured, as ``Client.complete_trial`` takes it.
        fixed_parameters: The time as it really was, ``{"t": 12.5}``. With a strategy of another
            library, any one range parameter is taken for time.

    Returns:
        The index of the trial that has the data: ``trial_index`` if the time is the one suggested.

    Raises:
        UserInputError: If the trial is not running, ``fixed_parameters`` is not that of time, the
            time is out of its bounds, or Ax refuses the data. A running trial runs on.
        ValueError: If the time is no finite number; the trial runs on.
    """
    trial = client._experiment.trials[trial_index]
    if not trial.status.is_running:
        raise UserInputError(
            f"Trial {trial_index} is {trial.status.name}, but only a running trial can be "
            "completed; attach another measurement by client.attach_trial."
        )
    suggested = trial.arm.parameters
    measured = {**suggested, **_checked_time(client, fixed_parameters)}
    if measured == suggested:
        client.complete_trial(trial_index=trial_index, raw_data=raw_data)
        return trial_index
    index: int = client.attach_trial(parameters=measured)
    try:
        client.complete_trial(trial_index=index, raw_data=raw_data)
    except Exception:
        client.mark_trial_abandoned(trial_index=index)  # or it would count as running for ever
        raise
    client.mark_trial_abandoned(trial_index=trial_index)
    return index


def _checked_time(client: Client, fixed_parameters: dict[str, float]) -> dict[str, float | int]:
    """The time of a measurement by its parameter's name."""
    _, name = next(timed(client), (None, None))
    parameters = client._experiment.search_space.parameters
    given = list(fixed_parameters) if isinstance(fixed_parameters, Mapping) else []
    parameter = parameters.get(given[0]) if len(given) == 1 else None
    if not isinstance(parameter, RangeParameter) or name not in (None, parameter.name):
        wanted = "the time, a range parameter" if name is None else f"{{{name!r}: time}}"
        raise UserInputError(
            f"fixed_parameters is {shown(fixed_parameters)}, but the setting of a trial stays as "
            f"it was suggested, and only its time may be another; give {wanted} alone."
        )
    time = require_number(
        parameter.name, fixed_parameters[parameter.name], "(-inf, inf)", "give the time it was."
    )
    check_now(time, parameter)
    if parameter.cast(time) != time:
        raise UserInputError(
            f"{parameter.name!r} is {time}, but the parameter takes whole numbers; give one, or "
            'configure the experiment with parameter_type="float".'
        )
    return {parameter.name: parameter.cast(time)}
