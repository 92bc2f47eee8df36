"""Ways in which a JSON file may be damaged."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

DEEP, NESTED = "deep", "[" * 100_000 + "]" * 100_000
ODD: list[Any] = [
    *(None, True, False, -1, 0, 3, 0.5, -1e300, 2**31, 2**63, 10**30, float("inf"), float("nan")),
    *("", "a", "0", "\x00", [], {}, [[]], [None], [1, "a"], {"type": "Grid"}, DEEP, "absent"),
]


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in some content."""
    if path:
        yield path
    entries = enumerate(content) if isinstance(content, list) else ()
    for key, value in content.items() if isinstance(content, dict) else entries:
        yield from places(value, (*path, key))


def survivors(
    text: str, write: Callable[[str], object], read: Callable[[], object], names: str, many: int
) -> list[str]:
    """Damaged contents that are neither read nor refused by a ``ValueError`` that names the file.

    Args:
        text: The content of a sound file.
        write: Writes another content.
        read: Reads it.
        names: The name of the file in errors.
        many: How many contents to try; every place is replaced or removed at least once.
    """
    chance, wrong = random.Random(0), []
    found = list(places(json.loads(text)))
    for path in found + chance.choices(found, k=max(0, many - len(found))):
        content = holder = json.loads(text)
        for key in path[:-1]:
            holder = holder[key]
        odd = chance.choice(ODD)
        if odd == "absent":
            del holder[path[-1]]
        else:
            holder[path[-1]] = odd
        write(json.dumps(content).replace(f'"{DEEP}"', NESTED))
        try:
            read()
        except ValueError as error:
            if names not in str(error):
                wrong.append(f"{path} = {odd!r}: the message names no file: {error}")
        except Exception as error:
            wrong.append(f"{path} = {odd!r}: {type(error).__name__}: {error}")
    return wrong
