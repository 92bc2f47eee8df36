"""Which strategies are played by captured rounds, and the memory that these take."""

from __future__ import annotations

from collections.abc import Mapping

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import AT_ONCE, FIRST_SLOTS
from botorch_tv.inference.rows import room_for
from botorch_tv.simulation.compiled.serving import Known, known, plain
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.strategies.state import State

Captured = tuple[Known, Basis]
"""A strategy in numbers, and the basis of its kernel."""


def captured(settings: StudySettings, states: Mapping[str, State]) -> dict[str, Captured]:
    """What captured rounds play, by label.

    Args:
        settings: The study; nothing is captured unless it asks for that, on a GPU.
        states: A state of every strategy.
    """
    wanted = settings.compiled and settings.device.type == "cuda" and plain(settings.world)
    if not wanted or settings.record:  # a recorder may ask for anything
        return {}
    found: dict[str, Captured] = {}
    for label, strategy in settings.strategies.items():
        state = states[label]
        one = known(strategy, state, settings.horizon)
        if one is not None and isinstance(state.basis, Basis):
            found[label] = one, state.basis
    return found


def numbers_per_trial(one: Captured, horizon: int) -> int:
    """Numbers held and worked on per trial by round ``horizon``."""
    (rules, most), basis = one
    slots = min(room_for(most, FIRST_SLOTS), most)
    older = slots**2 // 4 if slots > FIRST_SLOTS else 0  # while they are copied
    held = (AT_ONCE + 2) * basis.arms + slots**2 + older
    return held + basis.numbers_of_mixture(slots) + (4 if rules.window else 3) * horizon
