"""Parts of the GPU benchmark, the most informative first; each is a command of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Size(NamedTuple):
    """Device of the parts, and whether sizes are minimal."""

    device: str
    quick: bool


class Part(NamedTuple):
    """A process of the benchmark.

    Attributes:
        name: Name of its result file.
        module: Run by `python -m`; takes `--out`.
        seconds: Time limit.
        arguments: Command line for a size.
        needs: Further packages that the part needs.
    """

    name: str
    module: str
    seconds: float
    arguments: Callable[[Size], list[str]]
    needs: tuple[str, ...] = ()

    def command(self, size: Size) -> list[str]:
        """Arguments of `python`, without the result file."""
        return ["-m", self.module, *self.arguments(size)]


TESTS = tuple(
    f"tests/{folder}"
    for folder in (
        "conformance", "experts", "gp", "models", "simulation", "strategies",
        "test_functions",
    )
)  # fmt: skip
"""Tests of other folders do not concern a GPU."""


def _choices(size: Size) -> list[str]:
    small = ["--points", "5", "--trials", "2", "--horizon", "6"] if size.quick else []
    return ["--device", size.device, *small]


def _tests(size: Size) -> list[str]:
    return ["tests/gp/test_device_copies.py"] if size.quick else ["-m", "gpu", *TESTS]


def _loops(size: Size) -> list[str]:
    small = ["--loops", "2", "--rounds", "4", "--bandwidth-bytes", "100000"] if size.quick else []
    return ["--device", size.device, *small]


def _rounds(size: Size) -> list[str]:
    small = ["--points", "5", "--trials", "2", "--horizon", "4"] if size.quick else []
    small += [word.replace("--", "--expert-") for word in small]
    return ["--device", size.device, *small]


def _limits(size: Size) -> list[str]:
    kind = size.device.partition(":")[0]
    late = ["--rounds", "500", "2000", "--late-trials", "256", "--window", "32", "--repeats", "3"]
    tiny = ["--trials", "2", "--horizon", "3", "--points", "5", "--repeats", "1", "--threads", "1"]
    tiny += ["--rounds", "2", "4", "--late-trials", "2", "--window", "1", "--largest", "100000"]
    tiny += ["--strategies", "TV-GP-UCB"]
    return ["--devices", kind, *(tiny if size.quick else late)]


PARTS = (
    Part("choices", "benchmarks.gpu.choices", 90, _choices),
    Part("tests", "benchmarks.gpu.tests", 180, _tests, ("pytest", "hypothesis")),
    Part("rounds", "benchmarks.gpu.captured_rounds", 150, _rounds),
    Part("loops", "benchmarks.gpu.loops", 120, _loops),
    Part("limits", "benchmarks.speed.limits", 180, _limits),
)
