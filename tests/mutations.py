"""Ways in which a JSON file may be damaged."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

DEEP = "deep"
ODD: list[Any] = [
    *(None, True, False, -1, 0, 3, 0.5, -1e300, 2**31, 2**63, 10**30, float("inf"), float("nan")),
    *("", "a", "0", "\x00", [], {}, [[]], [None], [1, "a"], {"type": "Grid"}, DEEP),
]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in some content."""
    if path:
        yield path
    entries = content.items() if isinstance(content, dict) else ()
    if isinstance(content, list):
        entries = enumerate(content)
    for key, entry in entries:
        yield from places(entry, (*path, key))


def mutated(text: str, seed: int, many: int) -> Iterator[tuple[str, str]]:
    """Contents with a place replaced or missing, and the change.

    Every place is reached at least once, ``many`` in all.
    """
    found = list(places(json.loads(text)))
    chance = random.Random(seed)
    chosen = found + chance.choices(found, k=max(0, many - len(found)))
    for path in chosen:
        content = json.loads(text)
        holder = content
        for key in path[:-1]:
            holder = holder[key]
        odd = chance.choice([*ODD, "absent"])
        if odd == "absent":
            del holder[path[-1]]
        else:
            holder[path[-1]] = odd
        changed = json.dumps(content)
        nested = "[" * 100_000 + "]" * 100_000
        yield changed.replace(f'"{DEEP}"', nested), f"{path} = {odd!r}"


def survivors(
    text: str, write: Callable[[str], object], read: Callable[[], object], names: str, many: int
) -> list[str]:
    """What was read, or refused in other ways than by a ``ValueError`` that names the file.

    Args:
        text: The content of a sound file.
        write: Writes another content.
        read: Reads it.
        names: How errors are to name the file.
        many: How many contents to try; every place is damaged at least once.

    Returns:
        A line for each mutation that was answered by another error.
    """
    wrong = []
    for changed, what in mutated(text, 0, many):
        write(changed)
        try:
            read()
        except ValueError as error:
            if names not in str(error):
                wrong.append(f"{what}: the message names no file: {error}")
        except Exception as error:
            wrong.append(f"{what}: {type(error).__name__}: {error}")
    return wrong
