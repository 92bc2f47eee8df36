"""What is held of many trials, for some of them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from torch import Tensor


class OfTrials:
    """A dataclass whose parts lead with the trials: tensors, tuples and lists of them, and others.

    Others, as a kernel with parameters of each trial, have a method ``select`` of their own.
    """

    shared: ClassVar[tuple[str, ...]] = ()
    """Names of the parts that are the same for all trials."""

    def select(self, trials: Tensor) -> Self:
        """The same of some trials.

        Args:
            trials: Their numbers, int64.
        """
        parts = [one.name for one in fields(self) if one.name not in self.shared]  # type: ignore[arg-type]
        return replace(self, **{name: _selected(getattr(self, name), trials) for name in parts})  # type: ignore[type-var]


def _selected(part: Any, trials: Tensor) -> Any:
    if part is None or isinstance(part, Tensor):
        return None if part is None else part[trials]
    if isinstance(part, (tuple, list)):
        inside = [_selected(one, trials) for one in part]
        return type(part)(*inside) if hasattr(part, "_fields") else type(part)(inside)
    return part.select(trials)
