"""The recorder of every study: regret, resets, side queries and choices."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.state import Info


class Play(Recorder):
    """Records regret, resets, side queries and choices: arms ``index``, or points ``X``."""

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        if isinstance(domain, Grid):
            choice = {"index": Variable(dtype="int32")}
        else:
            choice = {"X": Variable({"coordinate": domain.columns})}
        return {
            "regret": Variable(),
            "resets": Variable(dtype="bool"),
            "side_queries": Variable(dtype="int32"),
            **choice,
        }

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        name = "X" if seen.suggestion.index is None else "index"
        return {
            "regret": seen.regret(seen.value),
            "resets": info.reset,
            "side_queries": info.side_queries,
            name: seen.suggestion.choice,
        }
