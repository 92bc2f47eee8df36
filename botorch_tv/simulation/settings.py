"""The settings of a study, and their descriptions in its result and its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from botorch_tv.identity import Description, describe
from botorch_tv.identity.library import library
from botorch_tv.identity.versions import versions
from botorch_tv.simulation.checks import require_precision
from botorch_tv.simulation.devices import device_name
from botorch_tv.simulation.layout import ResultLayout
from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Recorder
from botorch_tv.simulation.rules import Captured, captured
from botorch_tv.simulation.streams import DRAWS, Stream
from botorch_tv.simulation.worlds import World
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State


@dataclass(frozen=True)
class StudySettings:
    """Everything that determines a trial: the arguments of ``run_study`` with the same names.

    ``compiled`` says whether to compile rounds where possible; choices do not depend on it.
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
        """All recorders, :class:`Play` first."""
        return (Play(), *self.record)

    @cached_property
    def layout(self) -> ResultLayout:
        """What the recorders record.

        Raises:
            ValueError: If recorders do not fit each other or the domain.
        """
        return ResultLayout.of(
            self.record,
            self.world.domain,
            self.strategies,
            horizon=self.horizon,
            dtype=_name(self.dtype),
        )

    def description(self) -> dict[str, Description]:
        """All settings as JSON. Studies with equal descriptions have the same trials."""
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
        """Recorders by class name, whatever their order; further ones of a class are numbered."""
        described: dict[str, Description] = {}
        for one in sorted(json.dumps(describe(each, "record")) for each in self.record):
            content = json.loads(one)
            name = content["type"].rpartition(".")[2]
            many = sum(known.partition(" ")[0] == name for known in described)
            described[f"{name} ({many + 1})" if many else name] = content
        return described

    def of(self, labels: Sequence[str]) -> StudySettings:
        """The same study with some of its strategies."""
        return replace(self, strategies={label: self.strategies[label] for label in labels})

    def initial_states(self) -> dict[str, State]:
        """A state of every strategy by label; made once, because it evaluates the kernels.

        Raises:
            ValueError: If single precision is too coarse for this many rounds.
        """
        return self._states

    def __getstate__(self) -> dict[str, object]:
        """The settings without cached states, which every worker makes for itself."""
        cached = ("_states", "captured")
        return {name: part for name, part in vars(self).items() if name not in cached}

    @cached_property
    def captured(self) -> dict[str, Captured]:
        """The strategies whose rounds are captured as CUDA graphs, by label."""
        if not self.compiled or self.device.type != "cuda":
            return {}
        if self.record:  # recorders need the states of every round
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
        """Random numbers for one purpose and the trials of a chunk."""
        return Stream(
            self.seed, purpose, *chunk, dtype=self.dtype, device=self.device, spread=spread
        )

    def errors(self, chunk: tuple[int, int]) -> Stream:
        """The observation noise of the trials of a chunk."""
        return self.stream("noise", chunk, spread=math.sqrt(self.world.noise))

    @property
    def maximize(self) -> bool:
        """Whether the strategies, all alike, maximise."""
        return next(iter(self.strategies.values())).maximize

    def attributes(self) -> dict[str, str | int | float]:
        """The attributes of a result."""
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
        """The world as JSON; empty if it cannot be described."""
        try:
            return json.dumps(describe(self.world, "world"))
        except ValueError:
            return ""


def _text(text: str) -> str:
    """Escape what a file cannot hold: NUL, and characters without UTF-8 encoding."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
