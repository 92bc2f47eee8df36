"""A wind farm that is controlled by the yaw of its turbines, in a wind of varying direction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.test_functions.base import SearchedFunction
from botorch_tv.validation import refuse_masked, require

_POINTS = 256
"""Number of candidates for the optimum at a time; they are evaluated before the compass search."""

_STARTS = 6
"""Number of best candidates from which compass searches start."""

_FIRST, _LAST = 4.0, 0.02
"""First step of the compass search in degrees, and the step at which it ends; the step is halved
when no neighbour is better."""

_ROW = ((0.0, 0.0), (630.0, 0.0), (1260.0, 0.0))
"""Positions of three turbines in m, five rotor diameters apart on a line from west to east."""


class WindFarm(SearchedFunction):
    """Power of a wind farm in MW, computed by FLORIS from the yaw of some turbines in degrees.

    A turbine that does not face the wind yields less power, but deflects its wake away from the
    turbines behind it. The best yaw angles therefore depend on the wind direction. For turbines in
    a row, the best angles change sign when the wind direction crosses the direction of the row.
    Power is maximised. Between the given times, wind speed and direction are interpolated, the
    direction along the shorter arc.

    The wake model is FLORIS's default, the Gauss-curl hybrid, with turbines of 5 MW and a rotor of
    126 m. The gradient of power is not available. The best power at a time is found by compass
    search, with steps down to 0.02 degrees, from the best six of 256 evenly spread points, which
    include zero yaw. The best power has a relative error of about 1e-5.

    Example:
        >>> t = torch.arange(101.0)
        >>> farm = WindFarm(270 + 12 * torch.sin(2 * math.pi * t / 50))
        >>> world = BoxWorld(farm, noise=0.01, shift=3.5)
        >>> run_study(world, {"adaptive": adaptive_gp_ucb()}, trials=5, horizon=100)

    Args:
        directions: Directions, `n`, from which the wind blows at times 0, 1, 2, ..., in degrees;
            270 is west.
        speeds: Wind speeds, `n`, at times 0, 1, 2, ..., in m/s; or a scalar for all times.
        layout: Position of each turbine, (east, north) in m.
        steered: Number of controlled turbines; they are the first in ``layout``. All other turbines
            face the wind.
        largest: Largest absolute yaw angle, in degrees.
        turbulence: Turbulence intensity, as a fraction of the wind speed.
        noise_std: Standard deviation of the observation noise in MW; None for no noise.
        negate: Whether to reverse the sign of the function.

    Raises:
        ValueError: If a number is out of range, or if directions and speeds differ in length.
        ImportError: If the extra ``wind`` is not installed.
    """

    _is_minimization_by_default = False
    _check_grad_at_opt = False

    def __init__(
        self,
        directions: Tensor,
        speeds: Tensor | float = 8.0,
        *,
        layout: Sequence[tuple[float, float]] = _ROW,
        steered: int = 2,
        largest: float = 30.0,
        turbulence: float = 0.06,
        noise_std: float | None = None,
        negate: bool = False,
    ) -> None:
        name = "WindFarm"
        refuse_masked(f"{name}: directions", directions, "a record without gaps")
        refuse_masked(f"{name}: speeds", speeds, "a record without gaps")
        record = torch.as_tensor(directions, dtype=torch.float64, device="cpu").numpy()
        require(
            record.ndim == 1 and len(record) >= 2 and bool(np.isfinite(record).all()),
            f"{name}: directions has shape {record.shape}; give two or more finite numbers, for "
            "times 0, 1, 2, ....",
        )
        blown = torch.as_tensor(speeds, dtype=torch.float64, device="cpu").numpy()
        require(
            bool(((blown > 0) & (blown < 60)).all()),
            f"{name}: speeds are {blown.min()} to {blown.max()}; give m/s above 0 and below 60.",
        )
        self.turbulence = turbulence
        super().__init__(
            [(-largest, largest)] * steered,
            horizon=float(len(record) - 1),
            noise_std=noise_std,
            negate=negate,
        )
        # Directions are unwrapped, because 359 and 1 degrees must differ by 2 degrees, not by 358.
        self.directions = np.unwrap(record, period=360)
        self.speeds = np.broadcast_to(blown, record.shape)
        self.layout = tuple((float(east), float(north)) for east, north in layout)
        from floris import FlorisModel

        east, north = zip(*self.layout)
        self._model = FlorisModel("defaults")
        self._model.set(layout_x=list(east), layout_y=list(north))

    def _powers(self, yaw: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Power of every turbine in MW, `n x turbines`, for yaw angles `n x d` and times `n`."""
        moments = np.arange(len(self.directions))
        angles = np.zeros((len(yaw), len(self.layout)))
        angles[:, : self.spatial_dim] = yaw
        self._model.set(
            wind_directions=np.interp(t, moments, self.directions) % 360,
            wind_speeds=np.interp(t, moments, self.speeds),
            turbulence_intensities=np.full(len(yaw), self.turbulence),
            yaw_angles=angles,
        )
        self._model.run()
        return self._model.get_turbine_powers() / 1e6

    def _evaluate_true(self, X: Tensor) -> Tensor:
        flat = X.detach().double().cpu().reshape(-1, self.dim).numpy()
        found = self._powers(flat[:, :-1], flat[:, -1]).sum(-1)
        return torch.from_numpy(found).to(X).reshape(X.shape[:-1])

    def _search(self, times: list[float]) -> Iterable[tuple[float, Tensor]]:
        unknown = np.array(times)
        largest, dim = self._bounds[0][1], self.spatial_dim
        even = largest * (2 * even_points(_POINTS, dim).numpy() - 1)
        even[0] = 0.0

        seen = self._powers(np.tile(even, (len(unknown), 1)), unknown.repeat(_POINTS)).sum(-1)
        seen = seen.reshape(len(unknown), _POINTS)
        best = np.argsort(-seen, axis=1)[:, :_STARTS]
        place, value = even[best], np.take_along_axis(seen, best, 1)
        step = np.full(value.shape, _FIRST)
        compass = np.concatenate([np.eye(dim), -np.eye(dim)])
        while (step > _LAST).any():
            near = place[:, :, None] + step[:, :, None, None] * compass
            near = near.clip(-largest, largest)
            flat = near.reshape(-1, dim)
            powers = self._powers(flat, unknown.repeat(len(flat) // len(unknown)))
            there = powers.sum(-1).reshape(near.shape[:-1])
            highest = there.max(-1)
            # A finished search does not continue, because its result must not depend on the
            # searches for other times.
            better = (highest > value) & (step > _LAST)
            moved = np.take_along_axis(near, there.argmax(-1)[..., None, None], 2)[:, :, 0]
            place = np.where(better[..., None], moved, place)
            value = np.where(better, highest, value)
            step = np.where(better, step, step / 2)
        for i, first in enumerate(value.argmax(-1)):
            yield float(value[i, first]), torch.from_numpy(place[i, first])
