"""What a study is, told in words for its result and described in full for its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from botorch_tv.identity import Description, describe
from botorch_tv.identity.source import library
from botorch_tv.identity.versions import versions
from botorch_tv.simulation.captured.serving import Captured, captured
from botorch_tv.simulation.checks import require_precision
from botorch_tv.simulation.devices import device_name
from botorch_tv.simulation.layout import ResultLayout
from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Recorder
from botorch_tv.simulation.streams import DRAWS, Stream
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State


@dataclass(frozen=True)
class StudySettings:
    """Everything that decides a trial; the arguments of ``run_study`` of the same names.

    Besides, whether rounds are compiled where they can be, on which choices do not depend.
    """

    world: World
    strategies: Mapping[str, Strategy]
    horizon: int
    seed: int
    dtype: torch.dtype
    device: torch.device
    record: Sequence[Recorder] = ()
    compiled: bool = False

    @property
    def recorders(self) -> tuple[Recorder, ...]:
        """All that record something."""
        return (Play(), *self.record)

    @cached_property
    def layout(self) -> ResultLayout:
        """What they record.

        Raises:
            ValueError: If two record the same, or do not fit together or the domain.
        """
        return ResultLayout.of(
            self.record,
            self.world.domain,
            self.strategies,
            horizon=self.horizon,
            dtype=_name(self.dtype),
        )

    def description(self) -> dict[str, Description]:
        """All of it as JSON: two studies with the same description have the same trials."""
        return {
            "world": describe(self.world, "world"),
            "strategies": describe(self.strategies, "strategies"),
            "labels": list(self.strategies),
            "horizon": self.horizon,
            "seed": self.seed,
            "dtype": _name(self.dtype),
            "device": self.device.type,
            "record": self._record_description(),
            "botorch_tv": library(),
        }

    def _record_description(self) -> dict[str, Description]:
        """Recorders by the names of their classes, in any order; of one class with a number."""
        described: dict[str, Description] = {}
        for one in sorted(json.dumps(describe(each, "record")) for each in self.record):
            content = json.loads(one)
            name = content["type"].rpartition(".")[2]
            many = sum(known.partition(" ")[0] == name for known in described)
            described[f"{name} ({many + 1})" if many else name] = content
        return described

    def of(self, labels: Sequence[str]) -> StudySettings:
        """The same study of some of the strategies."""
        return replace(self, strategies={label: self.strategies[label] for label in labels})

    def initial_states(self) -> dict[str, State]:
        """A state of every strategy by label, made once, for kernels are evaluated for it.

        Raises:
            ValueError: If single precision is too coarse for so many rounds.
        """
        return self._states

    def __getstate__(self) -> dict[str, object]:
        """What is sent to a worker, which makes states of its own."""
        found_here = ("_states", "captured")
        return {name: part for name, part in vars(self).items() if name not in found_here}

    @cached_property
    def captured(self) -> dict[str, Captured]:
        """What captured rounds play, by label: nothing unless that is asked for, on a GPU."""
        if not self.compiled or self.device.type != "cuda":
            return {}
        if self.record:  # a recorder may ask for anything
            return {}
        return captured(self.world, self.strategies, self.initial_states(), self.horizon)

    @cached_property
    def _states(self) -> dict[str, State]:
        states = {
            label: player.init(self.world.domain, dtype=self.dtype, device=self.device)
            for label, player in self.strategies.items()
        }
        for label, player in self.strategies.items():
            require_precision(label, player, states[label], self.horizon)
        return states

    def stream(self, purpose: str, chunk: tuple[int, int], *, spread: float = 1.0) -> Stream:
        """Random numbers for one purpose of neighbouring trials, the first and how many."""
        return Stream(
            self.seed, purpose, *chunk, dtype=self.dtype, device=self.device, spread=spread
        )

    def errors(self, chunk: tuple[int, int]) -> Stream:
        """Errors of the measurements of neighbouring trials."""
        return self.stream("noise", chunk, spread=math.sqrt(self.world.noise))

    @property
    def maximize(self) -> bool:
        """Whether the largest value is wanted, by all strategies alike."""
        return next(iter(self.strategies.values())).maximize

    def attributes(self) -> dict[str, str | int | float]:
        """What a result says about itself."""
        return {
            "seed": self.seed,
            "horizon": self.horizon,
            "noise": float(self.world.noise),
            "world": _text(repr(self.world)),
            "world_description": self._world_description(),
            "draws": DRAWS,
            "goal": "the largest value" if self.maximize else "the smallest value",
            "strategies": json.dumps({label: repr(one) for label, one in self.strategies.items()}),
            "device": device_name(self.device),
            "dtype": _name(self.dtype),
            **versions(),
        }

    def _world_description(self) -> str:
        """The world as JSON, empty where it cannot be described."""
        try:
            return json.dumps(describe(self.world, "world"))
        except ValueError:
            return ""


def _text(text: str) -> str:
    """What a file can keep of a text: no NUL, and nothing that UTF-8 lacks."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
