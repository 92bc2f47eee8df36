"""The base class of worlds made of a few functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.simulation.worlds.functions import FunctionDistribution, FunctionDraw
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require

Given = ParamSpec("Given")


def of_functions(make: Callable[Given, None]) -> Callable[Given, None]:
    """Decorate a constructor to explain what to give instead of ``kernel``."""

    @functools.wraps(make)
    def checked(*args: Given.args, **given: Given.kwargs) -> None:
        if "kernel" in given:
            raise TypeError(
                f"{type(args[0]).__name__} takes functions instead of a kernel: "
                "functions=GaussianDraw(kernel) draws them from its Gaussian process, "
                "functions=RKHSFunctions(kernel) from its function space."
            )
        make(*args, **given)

    return checked


class DrawnWorld(GridWorld):
    """A world made of a few functions, drawn anew for every trial.

    Args:
        domain: The arms.
        functions: The distribution of all functions, or one for each, in order.
        count: Number of functions per trial.
        noise: Variance of the observation noise.

    Attributes:
        functions: The distribution of each function, `count` of them.

    Raises:
        ValueError: If the number of distributions differs from that of the functions, or a single
            user-defined function would be repeated.
        InputDataError: If functions given by the user do not fit the domain.
    """

    def __init__(
        self,
        domain: Grid,
        functions: FunctionDistribution | Sequence[FunctionDistribution],
        count: int,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        name = type(self).__name__
        each = functions if isinstance(functions, Sequence) else (functions,) * count
        self.functions = tuple(each)
        for one in self.functions:
            require(
                isinstance(one, FunctionDistribution),
                f"{name}: functions holds a {type(one).__name__}, which is not a distribution of "
                "functions; give RKHSFunctions(kernel), GaussianDraw(kernel), or "
                "FixedFunctions(values).",
            )
            one.check(domain)
        require(
            len(self.functions) == count,
            f"{name}: functions has {len(self.functions)} distributions, but this world is made of "
            f"{count} functions; give one for each, or a single one for all.",
        )
        require(
            count == 1 or isinstance(functions, Sequence) or functions.fresh,
            f"{name}: functions is {functions!r}, the same function {count} times over; give "
            f"[FixedFunctions(first), FixedFunctions(second), ...], one for each of {count}.",
        )

    def draw(self, stream: Stream) -> list[FunctionDraw]:
        """The functions of every trial, in order, as :meth:`rounds` draws them.

        Args:
            stream: Random numbers of the trials, with their dtype and device.
        """
        return [one.draw(self.domain, stream) for one in self.functions]

    def __repr__(self) -> str:
        same = all(one is self.functions[0] for one in self.functions)
        functions = repr(self.functions[0] if same else list(self.functions))
        parts = {"functions": functions, **self._parameters(), "noise": repr(self.noise)}
        return f"{type(self).__name__}({', '.join(f'{k}={part}' for k, part in parts.items())})"

    def _parameters(self) -> dict[str, str]:
        """Further constructor arguments, for the repr."""
        return {}
