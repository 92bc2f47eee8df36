"""Simulate packages that are not installed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_installed(*packages: str) -> Iterator[None]:
    """Inside, these cannot be imported, and botorch_tv is imported anew; afterwards all is back."""

    def loaded() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] in {"botorch_tv", *packages}]

    before = {name: sys.modules.pop(name) for name in loaded()}
    sys.modules.update(dict.fromkeys(packages))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in loaded():
            del sys.modules[name]
        sys.modules.update(before)
