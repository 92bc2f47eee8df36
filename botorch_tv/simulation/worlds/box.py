"""Time-varying test functions on their boxes, as worlds."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.inference.search import Search
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, World
from botorch_tv.strategies.box import Box
from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.validation import require, require_integer, require_number

PROBES = 64
"""Number of points and times whose values identify a test function."""


class BoxWorld(World):
    """A test function as a world: strategies choose any point of its box.

    Round k is at time k. A problem with a single function is used in all trials, which then differ
    in noise and, with ``random_rounds``, in their first points. A problem with ``batch_shape=(n,)``
    provides function i to trial i, for studies of up to n trials. Regret is relative to
    ``optimal_value_at``.

    Args:
        problem: The test function; its coordinates are the domain.
        noise: Variance of the observation noise, in scaled units; by default the problem's own,
            ``noise_std**2 / scale**2``.
        shift: Subtracted from the values of the problem, for a prior mean of 0.
        scale: Divisor of the shifted values, positive, for a kernel of variance 1.
        random_rounds: Number of initial rounds in which all strategies of a trial play the same
            random points, as in experiments with an initial design; they count like any other.
        search: How strategies maximise over the box; see :class:`~botorch_tv.strategies.Box`.

    Attributes:
        problem: The test function, a copy.
        probe: Some of its values, by which a resumed study recognises it.

    Raises:
        ValueError: If a number is out of range, the problem has batches of batches, or no noise is
            given.
    """

    domain: Box
    horizon: int
    maximize: bool

    def __init__(
        self,
        problem: TimeVaryingTestFunction,
        *,
        noise: float | None = None,
        shift: float = 0.0,
        scale: float = 1.0,
        random_rounds: int = 0,
        search: Search | None = None,
    ) -> None:
        name = type(problem).__name__
        require(
            len(problem.batch_shape) < 2,
            f"BoxWorld: {name} has batch_shape {tuple(problem.batch_shape)}, but trials have one "
            "dimension; give () or (n,).",
        )
        shift = require_number(
            "BoxWorld: shift", shift, "(-inf, inf)", "0 leaves the values as they are."
        )
        scale = require_number("BoxWorld: scale", scale, "(0, inf)", "1 keeps the unit.")
        own = problem.noise_std
        require(
            noise is not None or own is not None,
            f"BoxWorld: {name} has no noise of its own; give noise=0.0 or another variance.",
        )
        random_rounds = require_integer(
            "BoxWorld: random_rounds", random_rounds, 0, "0 lets strategies begin."
        )
        super().__init__(
            Box(problem.spatial_bounds, search=search),
            (own / scale) ** 2 if noise is None else noise,
        )
        self.problem = copy.deepcopy(problem)
        self.shift, self.scale, self.random_rounds = shift, scale, random_rounds
        self.horizon = math.floor(problem.horizon)
        require(
            self.horizon >= 1,
            f"BoxWorld: horizon of {name} is {problem.horizon}, before round 1; give a horizon of "
            "at least 1.",
        )
        self.maximize = not problem.is_minimization_problem
        self.probe = self._probe()

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        shape = self.problem.batch_shape
        last = stream.first + stream.trials
        require(
            not shape or last <= shape[0],
            f"run_study: {self!r} has functions for {sum(shape)} trials, but the study needs trial "
            f"number {last}; run fewer trials, or draw more functions.",
        )
        problem = self.problem
        if problem.bounds.dtype != stream.dtype or problem.bounds.device != stream.device:
            problem = copy.deepcopy(problem).to(device=stream.device, dtype=stream.dtype)
        return (_At(self, problem, step + 1, stream) for step in range(self.horizon))

    def opening(self, stream: Stream) -> Tensor | None:
        if not self.random_rounds:
            return None
        return self.domain.from_unit(stream.uniform(self.random_rounds, self.domain.dim))

    def _probe(self) -> Tensor:
        dim = self.domain.dim
        U = even_points(PROBES, dim + 1).to(self.problem.bounds)
        # At whole times, like the rounds; every function of a batch is probed.
        times = (1 + U[:, dim:] * (self.horizon - 1)).round()
        X = torch.cat([self.domain.from_unit(U[:, :dim]), times], -1)
        values: Tensor = self.problem(X.expand(*self.problem.batch_shape, *X.shape), noise=False)
        return values.detach()


class _At(Objective):
    """The functions of some trials at one time."""

    def __init__(
        self, world: BoxWorld, problem: TimeVaryingTestFunction, time: int, stream: Stream
    ) -> None:
        self.world, self.problem, self.time = world, problem, time
        self.trials = slice(stream.first, stream.first + stream.trials)

    def at(self, choice: Tensor) -> Tensor:
        X = choice if choice.dim() == 3 else choice.unsqueeze(-2)
        X = torch.cat([X, X.new_full((*X.shape[:-1], 1), float(self.time))], -1)
        shape = self.problem.batch_shape
        if shape:
            # The functions of other trials are evaluated as well, at arbitrary points.
            filled = X[:1].expand(*shape, *X.shape[1:]).clone()
            filled[self.trials] = X
            X = filled
        values: Tensor = self.problem(X, noise=False)
        values = self._scaled(values[self.trials] if shape else values)
        return values if choice.dim() == 3 else values.squeeze(-1)

    def best(self, maximize: bool) -> Tensor:
        value = self._scaled(self.problem.optimal_value_at(float(self.time)))
        if self.problem.batch_shape:
            return value[self.trials]
        return value.expand(self.trials.stop - self.trials.start)

    def _scaled(self, values: Tensor) -> Tensor:
        return (values - self.world.shift) / self.world.scale
