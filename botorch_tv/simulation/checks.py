"""Checks of the arguments of a regret study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from botorch_tv.inference.recursion import precise_rounds
from botorch_tv.simulation.recorders.recorder import Recorder
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, require_integer


def check_study(
    world: World, strategies: Mapping[str, Strategy], trials: int, horizon: int, seed: int
) -> tuple[int, int, int]:
    """Raise a ``ValueError`` unless the arguments of ``run_study`` make a study.

    Returns:
        Trials, horizon and seed as whole numbers.
    """
    _check_world(world)
    _check_strategies(strategies)
    trials = require_integer("run_study: trials", trials, 1, "give the number of worlds to draw.")
    seed = require_integer("run_study: seed", seed, 0, "give a seed of 0 or more.")
    require(
        seed < 2**64,
        f"run_study: seed is {seed}, but results keep seeds of 64 bits; give one below 2**64.",
    )
    horizon = require_integer("run_study: horizon", horizon, 1, "give the number of rounds.")
    require(
        world.horizon is None or horizon <= world.horizon,
        f"run_study: horizon is {horizon}, but {world!r} has {world.horizon} rounds; give "
        f"horizon={world.horizon} or less.",
    )
    minimising = [label for label, one in strategies.items() if not one.maximize]
    require(
        len(minimising) in (0, len(strategies)),
        f"run_study: maximize is False for {', '.join(minimising)} and True for the other "
        "strategies, but regret needs one goal; give all the same.",
    )
    require(
        world.maximize in (None, not minimising),
        f"run_study: maximize is {not minimising} for the strategies, but {world!r} is to be "
        f"{'maximised' if world.maximize else 'minimised'}; give strategies "
        f"maximize={world.maximize}, or construct the problem with the other negate=.",
    )
    return trials, horizon, seed


def require_precision(label: str, strategy: Strategy, state: State, horizon: int) -> None:
    """Raise a ``ValueError`` if rounding would exceed the information in late observations.

    Args:
        label: Label of the strategy.
        strategy: The strategy.
        state: One of its states, which gives the dtype.
        horizon: Rounds T.
    """
    inference = strategy.inference_for(state.domain, state.basis)
    kept, most = inference.process.most_kept(horizon), precise_rounds(inference, state.basis)
    require(
        kept <= most,
        f"run_study: {label!r} may keep {kept:,} observations of an objective that it assumes to "
        f"be static, but in float32 rounding errors outweigh what it learns beyond {most:,.0f}; "
        "give dtype=torch.float64, fewer rounds, or a strategy that forgets, by a period, a window "
        "or a rate of change.",
    )


def require_recorders(record: Sequence[Recorder]) -> tuple[Recorder, ...]:
    """Raise a ``ValueError`` unless these are recorders, which are returned."""
    require(
        isinstance(record, (list, tuple)),
        f"run_study: record is {_kind(record)}; give a tuple of recorders, such as (Diagnosis(),).",
    )
    for one in record:
        require(
            isinstance(one, Recorder),
            f"run_study: record holds {_kind(one)}; give instances of Recorder, such as "
            "Diagnosis().",
        )
    return tuple(record)


def _check_world(world: World) -> None:
    require(
        isinstance(world, World),
        f"run_study: world is {_kind(world)}, but a study draws its objectives from a World; give "
        "one, such as MarkovWorld(domain, kernel=kernel, epsilon=0.03, noise=0.02).",
    )
    # Checked before any message shows the world, because its repr may need these attributes.
    missing = [name for name in ("domain", "noise") if not hasattr(world, name)]
    require(
        not missing,
        f"run_study: {type(world).__name__} has no {' and no '.join(missing)}; call "
        "super().__init__(domain, noise) in its __init__.",
    )


def _check_strategies(strategies: Mapping[str, Strategy]) -> None:
    require(
        isinstance(strategies, Mapping),
        f"run_study: strategies is {_kind(strategies)}, but results need a label for each; give a "
        'dict such as {"GP": gp_ucb(kernel=kernel, noise=0.02)}.',
    )
    require(len(strategies) > 0, "run_study: strategies is empty; give at least one by its label.")
    for label, one in strategies.items():
        require(
            isinstance(label, str),
            f"run_study: the label {label!r} is {_kind(label)}; give text, such as {str(label)!r}.",
        )
        require(
            label.isprintable() and label.strip() != "",
            f"run_study: the label {label!r} cannot be printed or kept in a file; give text of "
            "printable characters.",
        )
        require(
            isinstance(one, Strategy),
            f"run_study: the strategy {label!r} is {_kind(one)}; give a Strategy, such as "
            "gp_ucb(kernel=kernel, noise=0.02).",
        )


def _kind(thing: object) -> str:
    """The type of a value, in words."""
    if thing is None:
        return "None"
    if isinstance(thing, type):
        return f"the class {thing.__name__}"
    name = type(thing).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
