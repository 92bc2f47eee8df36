"""The interfaces of worlds (distributions of objectives) and of the objectives in one round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

import numpy as np
import torch
import xarray as xr
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting.base import Declaring
from botorch_tv.gp.basis import ProductBasis
from botorch_tv.gp.covariance import describe_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.expressions import Limit, parse_limits
from botorch_tv.validation import require, require_integer, require_number


class Objective(ABC):
    """The objective functions of all trials in one round, without noise."""

    @abstractmethod
    def at(self, choice: Tensor) -> Tensor:
        """Noiseless values of the objectives at some choices.

        Args:
            choice: One choice or q choices per trial. On a grid, choices are indices of arms,
                `trials` or `trials x q`, int64. On a box, choices are points, `trials x d` or
                `trials x q x d`.

        Returns:
            The values, `trials` or `trials x q`.
        """

    @abstractmethod
    def best(self, maximize: bool) -> Tensor:
        """The best value of every objective over the domain, `trials`.

        Args:
            maximize: Whether the best value is the largest; otherwise it is the smallest.
        """


class OnArms(Objective):
    """Objectives given by their values on all arms of a grid.

    Args:
        values: Values on all arms, `trials x M`.
    """

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def at(self, choice: Tensor) -> Tensor:
        if choice.dim() == self.values.dim():
            return self.values.gather(-1, choice)
        return self.values.gather(-1, choice.unsqueeze(-1)).squeeze(-1)

    def best(self, maximize: bool) -> Tensor:
        return self.values.amax(-1) if maximize else self.values.amin(-1)


class InFeatures(OnArms):
    """Objectives given by their coordinates in features; values on the arms are computed on demand.

    Args:
        basis: The features.
        coordinates: Coordinates of the objectives, `trials x r`.
        out: Memory for the values of the objectives on all arms, `trials x M`; the next round
            overwrites this memory.
    """

    def __init__(self, basis: ProductBasis, coordinates: Tensor, out: Tensor) -> None:
        self.basis, self.coordinates, self._out = basis, coordinates, out

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        return self.basis.expand(self.coordinates, out=self._out)


class World(Declaring, ABC):
    """A distribution over simulated objectives that change with time.

    Args:
        domain: The domain of the strategies.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Number of rounds; None if unlimited.
        maximize: Whether strategies must maximise the objective; False if they must minimise it,
            None if both are allowed.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    DECLARED = (("only_values",), ("objectives", "opening", "available", "first_arm", "outcomes"))
    only_values: bool = False
    """Whether a round needs only the values of the arms: objectives are :class:`OnArms`, strategies
    choose in every round, and every choice can be measured."""
    horizon: int | None = None
    maximize: bool | None = None

    def __init__(self, domain: Domain, noise: float) -> None:
        self.domain = domain
        name = f"{type(self).__name__}: noise"
        self.noise = require_number(name, noise, "[0, 1e100]", "0 means no noise.")

    def __repr__(self) -> str:
        return arguments_shown(self)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """The names of the outcomes of a measurement; empty if the objective is the only one."""
        return ()

    @abstractmethod
    def objectives(self, stream: Stream) -> Iterator[Objective]:
        """The objectives of rounds 1, 2, ...

        Args:
            stream: Random numbers for the trials; ``stream.dtype`` and ``stream.device`` also apply
                to the result.

        Yields:
            The objectives of all trials in one round. A request for the objectives of the next
            round may overwrite the objectives of this round.

        Raises:
            ValueError: If the world has no objectives for the trials of ``stream``.
        """

    def opening(self, stream: Stream) -> Tensor | None:
        """The points of the first q rounds, `trials x q x d`; None if strategies choose them.

        Args:
            stream: Random numbers of the trials, independent of the stream for :meth:`objectives`.
        """
        return None

    def available(self, step: int, choice: Tensor) -> Tensor | None:
        """Whether choices can be measured, bool of shape `trials`; None if all can be measured.

        Args:
            step: Number of the round, counted from 0.
            choice: The choice of each trial: indices of arms, `trials`; or points of a box, `trials
                x d`.
        """
        return None


def arguments_shown(made: object) -> str:
    """Text for an object: the type, and the names and values of public attributes."""
    parts = {
        name: describe_kernel(value)
        if isinstance(value, Kernel)
        else repr(value).partition("(\n")[0]
        for name, value in vars(made).items()
        if not (name.startswith("_") or isinstance(value, Tensor | np.ndarray))
        and not isinstance(getattr(type(made), name, None), cached_property)
    }
    return f"{type(made).__name__}({', '.join(f'{name}={text}' for name, text in parts.items())})"


class GridWorld(World):
    """A distribution over time-varying objectives on a grid.

    Args:
        domain: The arms.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    domain: Grid
    only_values = True

    @abstractmethod
    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        """The objective of every trial in rounds 1, 2, ...

        Args:
            stream: Random numbers for the trials; ``stream.dtype`` and ``stream.device`` also apply
                to the result.

        Yields:
            Noiseless values on all arms, `trials x M`, in memory that the next round may overwrite.
        """

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        return (OnArms(values) for values in self._checked_rounds(stream))

    def look(self, rounds: int, trials: int = 1, seed: int = 0) -> xr.DataArray:
        """The noiseless objective of some trials, for inspection.

        Trial i has the same objective, up to rounding, as trial i of a study on a CPU with the same
        world and the same seed; the strategies of the study do not matter.

            >>> shown = world.look(rounds=100, trials=3)
            >>> shown.sel(trial=0, round=[1, 10, 100]).plot.line(x="x1")
            >>> shown.max("arm") - shown.mean("arm")  # the regret of random choices

        Args:
            rounds: Number of rounds, counted from the first round; at least 1.
            trials: Number of trials, at least 1.
            seed: Seed of the study, at least 0.

        Returns:
            Values, `trial x round x arm`, float64. Rounds count from 1; trials and arms count from
            0, as in the results of a study. The coordinates `x1`, `x2`, ..., each of dimension
            `arm`, are the positions of the arms.

        Raises:
            ValueError: If a size is out of range, or if the world has fewer than ``rounds`` rounds.
        """
        name = f"{type(self).__name__}.look"
        rounds = require_integer(f"{name}: rounds", rounds, 1, "give the number of rounds.")
        trials = require_integer(f"{name}: trials", trials, 1, "give the number of trials.")
        seed = require_integer(f"{name}: seed", seed, 0, "give the seed of a study.")
        stream = Stream(seed, "world", 0, trials, dtype=torch.float64, device=torch.device("cpu"))
        # Rounds are copied, because a world may reuse the memory of a round.
        seen = [values.detach().clone() for values in islice(self._checked_rounds(stream), rounds)]
        require(
            len(seen) == rounds,
            f"{name}: rounds is {rounds}, but {self!r} has {len(seen)}; give rounds={len(seen)} or "
            "less.",
        )
        X = self.domain.X.cpu().double().numpy()
        numbers = {"trial": range(trials), "round": range(1, rounds + 1), "arm": range(len(X))}
        places = {f"x{i + 1}": ("arm", X[:, i]) for i in range(self.domain.dim)}
        values = torch.stack(seen, 1).numpy()
        return xr.DataArray(values, numbers, tuple(numbers), "objective").assign_coords(places)

    def _checked_rounds(self, stream: Stream) -> Iterator[Tensor]:
        """The values of :meth:`rounds`, after a check of their shape."""
        wanted = (stream.trials, len(self.domain))
        for t, values in enumerate(self.rounds(stream), start=1):
            given = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            require(
                given == wanted,
                f"{type(self).__name__}.rounds yields {given} in round {t}, but {self.domain!r} "
                f"and {stream.trials} trials need a tensor of shape {wanted}, trials x arms; if "
                "all trials have the same values, yield values.expand(stream.trials, -1).",
            )
            yield values

    def first_arm(self, stream: Stream) -> Tensor | None:
        """Index of the arm of round 1, int64 of shape `trials`; None if strategies choose it.

        Args:
            stream: Random numbers of the trials, independent of the stream for :meth:`rounds`.
        """
        return None

    def opening(self, stream: Stream) -> Tensor | None:
        arm = self.first_arm(stream)
        if arm is None:
            return None
        return self.domain.X.to(arm.device, stream.dtype)[arm].unsqueeze(-2)


class OutcomesOnArms(OnArms):
    """Outcomes given by their values on all arms of a grid; the first is the objective.

    The best arm is the best of those that keep all limits. The value of an arm that violates a
    limit is at most that of the best arm, so regret is not negative.

    Args:
        outcomes: Values of the m outcomes on all arms, `trials x m x M`.
        kept: Whether each arm keeps all limits, `trials x M`, bool.
        succeeds: Whether a measurement of each arm succeeds, `trials x M`, bool.
        maximize: Whether the objective is maximised.
    """

    def __init__(self, outcomes: Tensor, kept: Tensor, succeeds: Tensor, maximize: bool) -> None:
        self.outcomes, self.kept, self.succeeds, self.maximize = outcomes, kept, succeeds, maximize

    @cached_property
    def values(self) -> Tensor:  # type: ignore[override]
        best = self.best(self.maximize).unsqueeze(-1)
        own = self.outcomes[:, 0]
        clipped = torch.minimum(own, best) if self.maximize else torch.maximum(own, best)
        return torch.where(self.kept, own, clipped)

    def best(self, maximize: bool) -> Tensor:
        sign = 1 if maximize else -1
        allowed = (sign * self.outcomes[:, 0]).masked_fill(~self.kept, -torch.inf)
        return sign * allowed.amax(-1)

    def outcomes_at(self, choice: Tensor) -> Tensor:
        """The outcomes at an arm of each trial, `trials`; `trials x m`."""
        return self.outcomes.take_along_dim(choice.view(-1, 1, 1), -1).squeeze(-1)


class OutcomesWorld(World):
    """A distribution over several outcomes on a grid, each from a world of its own.

    Strategies of :class:`~botorch_tv.strategies.Outcomes` observe all outcomes, every other
    strategy the objective alone. Regret refers to the best arm that keeps all limits in the round.

    Args:
        worlds: The world of each outcome, by name, the objective first; all on one grid.
        noise: Variance of the observation noise of every outcome.
        constraints: Limits on outcomes, such as ``"pressure <= 1"``.
        failures: Limits on outcomes beyond which a measurement fails.
        maximize: Whether the objective is maximised.

    Raises:
        ValueError: If the grids differ, or if a limit names an unknown outcome.
    """

    domain: Domain
    only_values = False

    def __init__(
        self,
        worlds: Mapping[str, GridWorld],
        noise: float,
        constraints: str | Sequence[str] = (),
        failures: str | Sequence[str] = (),
        maximize: bool = True,
    ) -> None:
        every = list(worlds.values())
        require(
            all(world.domain is every[0].domain for world in every),
            "OutcomesWorld: worlds have different grids; give all of them the same Grid.",
        )
        super().__init__(every[0].domain, noise)
        self.worlds, self.maximize = dict(worlds), maximize
        self.constraints, self.failures = constraints, failures
        self._limits, self._failures = (
            parse_limits(texts, tuple(worlds)) if texts else () for texts in (constraints, failures)
        )

    @property
    def outcomes(self) -> tuple[str, ...]:
        return tuple(self.worlds)

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        for parts in zip(*(world.rounds(stream) for world in self.worlds.values())):
            values = torch.stack(parts, 1)
            kept, succeeds = self._keep(self._limits, values), self._keep(self._failures, values)
            yield OutcomesOnArms(values, kept, succeeds, self.maximize is not False)

    def _keep(self, limits: Sequence[Limit], values: Tensor) -> Tensor:
        by_name = dict(zip(self.worlds, values.unbind(1)))
        kept = torch.ones_like(values[:, 0], dtype=torch.bool)
        for limit in limits:
            kept &= limit.keeps(limit.expression.value(by_name))
        return kept
