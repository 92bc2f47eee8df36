"""Trials that were run at another time than they were suggested for."""

from __future__ import annotations

from ax.api.client import Client
from ax.api.types import TOutcome


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
        fixed_parameters: The time as it really was, ``{"t": 12.5}``.

    Returns:
        The index of the trial that has the data: ``trial_index`` if the time is the one suggested.

    Raises:
        UserInputError: If Ax refuses the data; the trial that was suggested runs on.
    """
    suggested = client._experiment.trials[trial_index].arm.parameters
    measured = {**suggested, **fixed_parameters}
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
