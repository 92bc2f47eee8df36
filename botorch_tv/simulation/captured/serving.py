"""Which strategies are played by captured rounds, and the memory that these take."""

from __future__ import annotations

from collections.abc import Mapping

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import AT_ONCE, FIRST_SLOTS
from botorch_tv.inference.rows import room_for
from botorch_tv.simulation.in_numbers.known import MOST_SLOTS, Known, known, plain
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State

Captured = tuple[Known, Basis]
"""A strategy in numbers, and the basis of its kernel."""


def captured(
    world: World, strategies: Mapping[str, Strategy], states: Mapping[str, State], horizon: int
) -> dict[str, Captured]:
    """What captured rounds play, by label.

    Args:
        world: Where objectives are drawn from; nothing is captured on one that goes its own way.
        strategies: By label.
        states: A state of each.
        horizon: Rounds T.
    """
    if not plain(world):
        return {}
    found: dict[str, Captured] = {}
    for label, strategy in strategies.items():
        basis, one = states[label].basis, known(strategy, states[label], horizon)
        # What all may hold by the last round is counted as memory.
        if one is not None and one.slots <= MOST_SLOTS and isinstance(basis, Basis):
            found[label] = one, basis
    return found


def numbers_per_trial(one: Captured, horizon: int) -> int:
    """Numbers held and worked on per trial by round ``horizon``."""
    (rules, most), basis = one
    slots = min(room_for(most, FIRST_SLOTS), most)
    older = slots**2 // 4 if slots > FIRST_SLOTS else 0  # while they are copied
    held = (AT_ONCE + 2) * basis.arms + slots**2 + older
    return held + basis.numbers_of_mixture(slots) + (4 if rules.window else 3) * horizon
