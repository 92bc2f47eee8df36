"""Recorded readings of many sensors, replayed as objectives."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from botorch_tv.gp.tensors import DeviceCopies
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.panels.temporal import (
    Center,
    carried_forward,
    fit_rate,
    sample_covariance,
    sample_spectrum,
    scaling,
)
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import refuse_masked, require, require_integer, require_number

UNEVEN = 0.25
"""Largest accepted relative deviation of a time between rows from the usual time between rows; a
larger deviation causes a warning."""

First = int | Literal["random", "each"] | None
"""The first arm of every trial: an index, a way to choose the arm, or None for the choice of the
strategy."""


class PanelWorld(GridWorld):
    """Readings of many arms: the first rows train a model, the later rows are replayed, [B16] §5.2.

    All readings are scaled to (reading - mean) / scale, where mean and scale (the standard
    deviation) are those of the training rows. The training rows also determine the model: the
    kernel is their covariance across arms, the noise variance is a share of their variance, and the
    rate of change ε maximises their marginal likelihood. Every trial replays the same test rows.
    Trials differ in their first arm; all strategies of a trial have the same first arm. Build
    strategies from ``world.kernel``, ``world.model_noise`` and ``world.epsilon``.

    The covariance includes the noise of the readings, so a small ε is overestimated. For example,
    for 300 rows of 20 arms and a true ε of 0.01, the fitted ε was 0.06; if the true covariance was
    given, the fitted ε was 0.01. If you have a better value than the fitted ε, give your value to
    the strategies.

    Each row is a round, and all rounds are assumed to have the same length; unevenly spaced times
    in a panel cause a warning.

    Missing readings are NaN. The covariance of two arms uses the rows with readings of both arms.
    If an arm has no reading in a test row, the objective at this arm stays at the previous reading
    of the arm, and playing the arm yields no observation.

    Args:
        values: A panel, or readings of shape `rounds x arms`, NaN for missing readings.
        train: Number of initial rows for fitting, at least 2; the remaining rows are replayed.
        center: ``"all"`` subtracts the mean of all readings. ``"arm"`` subtracts the mean of each
            arm, so the objective is an arm's excess over its usual reading.
        standardize: Whether readings are divided by their standard deviation. If False, the scale
            is 1, so the objective and regret are in the unit of the readings.
        noise_share: Noise variance of the model, divided by the variance of the training rows.
        groups: Number of consecutive training rows in a group, such as the rows of a day; the fit
            of ε treats groups as independent. By default all rows are in the same group.
        observation_noise: Variance of the noise that is added to every reading before a strategy
            observes it, in squared units of the objective. The noise variance for strategies is
            ``model_noise`` plus ``observation_noise``.
        first_arm: The first arm of every strategy. ``"random"`` draws an arm per trial; ``"each"``
            starts trial i at arm i, cyclically; an integer is the index of the arm in all trials.
            If ``first_arm`` is None, strategies choose their first arm. If there is no observation
            noise and the strategies use no random numbers, trials with the same first arm are
            identical; then use ``"each"`` and as many trials as arms, so that no trial is counted
            twice.
        coordinates: Positions of the arms, `arms x d`; by default the positions in the panel, or
            0, 1, 2, ....

    Attributes:
        domain: The arms, a :class:`Grid` of their coordinates.
        kernel: Covariance across arms, `arms x arms`, float64, in squared units of the objective.
        model_noise: Noise variance that the model assumes for a reading.
        epsilon: Rate of change ε per round, fitted on first access.
        mean: The mean that was subtracted from the readings: a scalar, or a mean per arm, `arms`.
        scale: Divisor of the readings.
        training: The scaled training rows, `train x arms`, float64, NaN for missing readings.
        objective: The scaled test rows with filled gaps, `horizon x arms`, float64.
        measured: Bool, `horizon x arms`: True for every reading in ``objective``, False for every
            filled gap.
        horizon: Number of test rows.
        noise: Variance of the noise added to readings, 0 unless ``observation_noise`` is given.

    Raises:
        ValueError: If there are too few training or test rows, if an arm has no reading in the
            training rows, or if a parameter is out of range.
    """

    horizon: int

    def __init__(
        self,
        values: Panel | np.ndarray | Tensor,
        train: int,
        *,
        center: Center = "all",
        standardize: bool = True,
        noise_share: float = 0.05,
        groups: int | None = None,
        observation_noise: float = 0.0,
        first_arm: First = "random",
        coordinates: np.ndarray | Tensor | None = None,
    ) -> None:
        device = values.device if isinstance(values, Tensor) else torch.device("cpu")
        panel = _as_panel(values, coordinates)
        _warn_if_uneven(panel.times)
        _check_rows(panel, train)
        readings, arms = panel.values, len(panel.arms)
        require(center in ("all", "arm"), f"PanelWorld: center is {center!r}; give 'all' or 'arm'.")
        fix = "0.05 is usual."
        self.noise_share = require_number("PanelWorld: noise_share", noise_share, "(0, 1]", fix)
        require(groups is None or groups >= 2, f"PanelWorld: groups is {groups}; give 2 or more.")
        if first_arm not in (None, "random", "each"):
            fix = f"arms are numbered 0 to {arms - 1}; or give 'random', 'each', or None."
            first_arm = require_integer("PanelWorld: first_arm", first_arm, 0, fix)
            require(first_arm < arms, f"PanelWorld: first_arm is {first_arm}, but {fix}")
        super().__init__(_domain(panel, device), observation_noise)
        mean, self.scale = scaling(readings[:train], center, standardize)
        played = (carried_forward(readings)[train:] - mean) / self.scale
        self.center, self.standardize, self.start = center, standardize, first_arm
        self.mean = torch.as_tensor(mean, dtype=torch.float64, device=device)
        self.training = (readings[:train] - mean) / self.scale
        self._groups = groups
        self.model_noise = self.noise_share * float(np.nanmean(self.training**2))
        self.kernel = torch.tensor(sample_covariance(self.training), device=device)
        self.objective = torch.as_tensor(played, device=device)
        self.measured = torch.as_tensor(~np.isnan(readings[train:]), device=device)
        self.horizon = len(played)
        self._measured = None if self.measured.all() else DeviceCopies(self.measured)

    @cached_property
    def epsilon(self) -> float:
        """The rate ε that maximises the marginal likelihood of the training rows, [B16] (24)."""
        covariance = sample_spectrum(self.training)
        return fit_rate(self.training, covariance, self.model_noise, self._groups).epsilon

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        played = self.objective.to(dtype=stream.dtype, device=stream.device)
        for row in played:
            yield row.expand(stream.trials, -1)

    def first_arm(self, stream: Stream) -> Tensor | None:
        if self.start is None:
            return None
        arms = len(self.domain)
        if self.start == "random":
            # In float32 the product of the number of arms and a number just below 1 may round up to
            # the number of arms.
            return (stream.uniform() * arms).long().clamp_max(arms - 1)
        if self.start == "each":
            trials = torch.arange(stream.first, stream.first + stream.trials, device=stream.device)
            return trials % arms
        return torch.full((stream.trials,), self.start, device=stream.device)

    def available(self, step: int, choice: Tensor) -> Tensor | None:
        if self._measured is None:
            return None
        return self._measured.on(torch.bool, choice.device)[step][choice]


def _warn_if_uneven(times: np.ndarray | None) -> None:
    if times is None or len(times) < 2:
        return
    # Differences of dates are whole numbers of units, so the ratio of equal differences is exactly
    # 1.
    lengths = np.diff(times).astype(np.float64)
    steps = lengths / np.median(lengths)
    worst = int(np.abs(steps - 1).argmax())
    if abs(steps[worst] - 1) > UNEVEN:
        warnings.warn(
            "PanelWorld: rows are assumed to be rounds of equal length, but the step from "
            f"{times[worst]} to {times[worst + 1]} is {steps[worst]:.3g} times the usual step; add "
            "rows of NaN for missing rounds, or use replace(panel, times=None) if times do not "
            "matter.",
            stacklevel=3,
        )


def _as_panel(
    values: Panel | np.ndarray | Tensor, coordinates: np.ndarray | Tensor | None
) -> Panel:
    places = None if coordinates is None else _numbers(coordinates)
    if isinstance(values, Panel):
        return values if places is None else replace(values, coordinates=places)
    readings = _numbers(values)
    return Panel(readings, tuple(map(str, range(readings.shape[-1]))), coordinates=places)


def _numbers(values: np.ndarray | Tensor) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    refuse_masked("PanelWorld: an array", values, "values.filled(nan) for missing readings")
    return np.ascontiguousarray(values, dtype=np.float64)


def _check_rows(panel: Panel, train: int) -> None:
    rows = len(panel.values)
    train = require_integer("PanelWorld: train", train, 2, "a covariance needs two rows.")
    require(
        train < rows,
        f"PanelWorld: train is {train}, but there are {rows} rows and at least 1 test row is "
        f"needed; give train of at most {rows - 1}.",
    )
    read = ~np.isnan(panel.values[:train])
    silent = [arm for arm, any_read in zip(panel.arms, read.any(0)) if not any_read]
    require(
        not silent and int(read.any(1).sum()) >= 2,
        f"PanelWorld: {int(read.any(1).sum())} of {train} training rows have readings, but a "
        f"covariance needs 2; arms without readings: {', '.join(silent[:8]) or '-'}. Train on "
        "more rows, or remove arms (Panel.select, or --without on the command line).",
    )


def _domain(panel: Panel, device: torch.device) -> Grid:
    places = panel.coordinates
    if places is None:
        places = np.arange(len(panel.arms))[:, None]
    require(
        len(np.unique(places, axis=0)) == len(panel.arms),
        "PanelWorld: some arms have the same coordinates, so points do not identify arms; "
        "give distinct coordinates, or none.",
    )
    return Grid(torch.tensor(np.ascontiguousarray(places), dtype=torch.float64, device=device))
