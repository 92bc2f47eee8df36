"""What every world offers to a study."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.objective import Objective, OnArms
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.validation import require, require_integer, require_number


class World(ABC):
    """A distribution over objectives that change with time.

    Args:
        domain: Where strategies choose.
        noise: Variance of the observation noise.

    Attributes:
        horizon: Rounds there are; None where they never end.
        maximize: Whether large values are good; None where strategies may be after either end.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    horizon: int | None = None
    maximize: bool | None = None

    def __init__(self, domain: Domain, noise: float) -> None:
        noise = require_number(
            f"{type(self).__name__}: noise", noise, "[0, 1e100]", "0 measures exactly."
        )
        self.domain = domain
        self.noise = noise

    @abstractmethod
    def objectives(self, stream: Stream) -> Iterator[Objective]:
        """The objectives of rounds 1, 2, ...

        Args:
            stream: Random numbers of the trials, with their dtype and device.

        Yields:
            The objectives of all trials; an earlier one may no longer be used.
        """

    def opening(self, stream: Stream) -> Tensor | None:
        """The points that every strategy plays first, `trials x q x d`; None where they choose.

        Args:
            stream: Random numbers of the trials, apart from those of :meth:`objectives`.
        """
        return None

    def available(self, step: int, choice: Tensor) -> Tensor | None:
        """Which choices can be measured.

        Args:
            step: The round, counted from 0.
            choice: One for each trial, as a log keeps it: arms, `trials`, or points, `trials x d`.

        Returns:
            A bool per trial, on the device of ``choice``; None where all can be measured.
        """
        return None


class GridWorld(World):
    """A distribution over time-varying objectives on a grid.

    Args:
        domain: The arms.
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``noise`` is negative or not finite.
    """

    domain: Grid

    def __init__(self, domain: Grid, noise: float) -> None:
        super().__init__(domain, noise)

    @abstractmethod
    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        """The objective of every trial at rounds 1, 2, ...

        Args:
            stream: Random numbers of the trials, with their dtype and device.

        Yields:
            Noiseless values on all arms, `trials x M`, in memory that the next round uses again.
        """

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        return (OnArms(values) for values in self._checked_rounds(stream))

    def look(self, rounds: int, trials: int = 1, seed: int = 0) -> xr.DataArray:
        """The objective of some trials, to be looked at, without noise.

        Trial i is, up to rounding, the trial i of a study with this seed on a CPU, whatever its
        strategies:

            >>> shown = world.look(rounds=100, trials=3)
            >>> shown.sel(trial=0, round=[1, 10, 100]).plot.line(x="x1")
            >>> shown.max("arm") - shown.mean("arm")  # what blind choices would cost

        Args:
            rounds: How many rounds, from the first one on, at least 1.
            trials: How many trials, at least 1.
            seed: Seed of the study, at least 0.

        Returns:
            `trial x round x arm`, float64; rounds count from 1 and trials and arms from 0, as in
            the results of a study. Coordinates `x1`, `x2`, ..., each `arm`, say where arms are.

        Raises:
            ValueError: If a size is out of range, or the world has fewer rounds.
        """
        name = f"{type(self).__name__}.look"
        rounds = require_integer(f"{name}: rounds", rounds, 1, "give the number of rounds.")
        trials = require_integer(f"{name}: trials", trials, 1, "give the number of trials.")
        seed = require_integer(f"{name}: seed", seed, 0, "give the seed of a study.")
        stream = Stream(seed, "world", 0, trials, dtype=torch.float64, device=torch.device("cpu"))
        # Copied one by one, for a world may use the memory of a round again.
        seen = [values.detach().clone() for values in islice(self._checked_rounds(stream), rounds)]
        require(
            len(seen) == rounds,
            f"{name}: rounds is {rounds}, but {self!r} has {len(seen)}; give rounds={len(seen)} or "
            "less.",
        )
        X = self.domain.X.cpu().double().numpy()
        places = {f"x{i + 1}": ("arm", X[:, i]) for i in range(self.domain.dim)}
        return xr.DataArray(
            torch.stack(seen, 1).numpy(),
            dims=("trial", "round", "arm"),
            coords={
                "trial": np.arange(len(seen[0])),
                "round": np.arange(1, len(seen) + 1),
                "arm": np.arange(len(X)),
                **places,
            },
            name="objective",
        )

    def _checked_rounds(self, stream: Stream) -> Iterator[Tensor]:
        """What :meth:`rounds` yields, refused unless it is one value per trial and arm."""
        wanted = (stream.trials, len(self.domain))
        for t, values in enumerate(self.rounds(stream), start=1):
            shape = tuple(values.shape) if isinstance(values, Tensor) else None
            if shape != wanted:
                given = type(values).__name__ if shape is None else f"a tensor of shape {shape}"
                raise ValueError(
                    f"{type(self).__name__}.rounds yields {given} in round {t}, but "
                    f"{self.domain!r} and {stream.trials} trials need a tensor of shape {wanted}, "
                    "trials x arms; where all trials are alike, "
                    "values.expand(stream.trials, -1)."
                )
            yield values

    def first_arm(self, stream: Stream) -> Tensor | None:
        """The arm at which every strategy starts, `trials`, int64; None where they choose.

        Args:
            stream: Random numbers of the trials, apart from those of :meth:`rounds`.
        """
        return None

    def opening(self, stream: Stream) -> Tensor | None:
        arm = self.first_arm(stream)
        if arm is None:
            return None
        return self.domain.X.to(arm.device, stream.dtype)[arm].unsqueeze(-2)
