"""A wind farm that is steered by the yaw of its turbines, under a wind that turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.test_functions.base import TimeVaryingTestFunction
from botorch_tv.validation import require, require_integer, require_number

if TYPE_CHECKING:
    from floris import FlorisModel

_POINTS = 256
"""Settings that are looked at for the best of a time, before the descent of a compass search."""

_STARTS = 6
"""How many of them it begins from."""

_FIRST, _LAST = 4.0, 0.02
"""Its first step and the one after which it ends, degrees; halved where no neighbour is better."""

_ROW = ((0.0, 0.0), (630.0, 0.0), (1260.0, 0.0))
"""Three turbines in a row that a wind from 270 degrees blows along, five diameters apart."""


class WindFarm(TimeVaryingTestFunction):
    """Power of a farm in MW, from FLORIS, against the yaw of some turbines in degrees.

    A turbine that is turned out of the wind brings less and bends its wake away from those behind:
    what pays depends on where the wind comes from, and as it passes the row the best angles change
    sign. The larger the better. Times between those of the record are interpolated, angles along
    the shorter way round.

    Wakes are FLORIS's default, a Gauss-curl hybrid, behind turbines of 5 MW with a rotor of 126 m,
    and there are no gradients. The best power of a time is the best that compass searches find,
    from the best six of 256 even points and facing the wind, with steps down to 0.02 degrees: to
    about 1e-5 of it.

    Example:
        >>> t = torch.arange(101.0)
        >>> farm = WindFarm(270 + 12 * torch.sin(2 * math.pi * t / 50))
        >>> world = BoxWorld(farm, noise=0.01, shift=3.5)
        >>> run_study(world, {"told nothing": adaptive_gp_ucb()}, trials=5, horizon=100)

    Args:
        directions: Where the wind comes from at times 0, 1, 2, ..., degrees, `n`; 270 is west.
        speeds: Its speed at these times, m/s, `n`, or one number.
        layout: Places of the turbines, m east and north.
        steered: How many turbines have an angle of their own, the first of the layout; the others
            face the wind.
        largest: Largest angle to either side, degrees.
        turbulence: Intensity of the turbulence, a share of the speed.
        noise_std: Standard deviation of the observation noise, MW; None for none.
        negate: Whether to turn the sign around.

    Raises:
        ValueError: If a number is out of range, or the records differ in length.
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
        record = torch.as_tensor(directions, dtype=torch.float64, device="cpu").numpy()
        require(
            record.ndim == 1 and len(record) >= 2 and bool(np.isfinite(record).all()),
            f"{name}: directions has shape {record.shape}, but a record is two finite numbers or "
            "more, one per unit of time.",
        )
        blown = torch.as_tensor(speeds, dtype=torch.float64, device="cpu").numpy()
        require(
            blown.ndim == 0 or blown.shape == record.shape,
            f"{name}: speeds has shape {blown.shape}, but there are {len(record)} directions; give "
            "as many, or one number.",
        )
        require(
            bool(((blown > 0) & (blown < 60)).all()),
            f"{name}: speeds has {blown.min()} to {blown.max()} m/s, but a wind is above 0 and "
            "below 60.",
        )
        steered = require_integer(f"{name}: steered", steered, 1, "it counts turbines.")
        require(
            steered <= len(layout),
            f"{name}: steered is {steered}, but layout has {len(layout)} turbines.",
        )
        largest = require_number(f"{name}: largest", largest, "(0, 45]", "30 is usual.")
        fix = "0.06 is usual at sea."
        self.turbulence = require_number(f"{name}: turbulence", turbulence, "(0, 1]", fix)
        super().__init__(
            [(-largest, largest)] * steered,
            horizon=float(len(record) - 1),
            noise_std=noise_std,
            negate=negate,
        )
        # Unwrapped, so that from 359 to 1 degree it is two and not 358.
        self.directions = np.unwrap(record, period=360)
        self.speeds = np.broadcast_to(blown, record.shape)
        self.layout = tuple((float(east), float(north)) for east, north in layout)
        self._model = self._floris()
        self._known: dict[float, tuple[float, np.ndarray]] = {}

    def powers(self, X: Tensor) -> Tensor:
        """The power of every turbine in MW, `... x turbines`, for X `... x (d + 1)`."""
        flat = X.detach().double().cpu().reshape(-1, self.dim).numpy()
        found = self._powers(flat[:, :-1], flat[:, -1])
        return torch.from_numpy(found).to(X).reshape(*X.shape[:-1], len(self.layout))

    def optimizers_at(self, t: float) -> Tensor:
        """The best angles found at time ``t``, `1 x d`; others may be as good."""
        self._solve({float(self._times(t))})
        return torch.from_numpy(self._known[float(t)][1]).unsqueeze(0).to(self.bounds)

    def _floris(self) -> FlorisModel:
        try:
            from floris import FlorisModel
        except ImportError as error:
            raise ImportError("WindFarm needs: pip install 'botorch-tv[wind]'") from error
        model = FlorisModel("defaults")
        east, north = zip(*self.layout)
        model.set(layout_x=list(east), layout_y=list(north))
        return model

    def _powers(self, yaw: np.ndarray, t: np.ndarray) -> np.ndarray:
        """MW of every turbine, `n x turbines`, for angles `n x d` and times `n`."""
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
        found: np.ndarray = self._model.get_turbine_powers() / 1e6
        return found

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self.powers(X).sum(-1)

    def _best_at(self, t: Tensor) -> Tensor:
        times = t.detach().double().flatten().tolist()
        self._solve(set(times))
        found = [self._known[time][0] for time in times]
        return torch.tensor(found, dtype=torch.float64, device="cpu").reshape(t.shape).to(t)

    def _solve(self, times: set[float]) -> None:
        """Make sure that the best angles of these times are known."""
        unknown = np.array(sorted(times - self._known.keys()))
        if not len(unknown):
            return
        largest, dim = self._bounds[0][1], self.spatial_dim
        even = largest * (2 * even_points(_POINTS, dim).numpy() - 1)
        even[0] = 0.0
        seen = self._total(np.tile(even, (len(unknown), 1)), unknown.repeat(_POINTS))
        best = np.argsort(-seen.reshape(len(unknown), _POINTS), axis=1)[:, :_STARTS]
        place, value = even[best], np.take_along_axis(seen.reshape(len(unknown), -1), best, 1)
        step = np.full(value.shape, _FIRST)
        compass = np.concatenate([np.eye(dim), -np.eye(dim)])
        while (step > _LAST).any():
            near = place[:, :, None] + step[:, :, None, None] * compass
            near = near.clip(-largest, largest)
            flat = near.reshape(-1, dim)
            there = self._total(flat, unknown.repeat(len(flat) // len(unknown)))
            there = there.reshape(near.shape[:-1])
            winner = there.argmax(-1)[..., None]
            # Who has ended stays, so that no time's best depends on which others are asked for.
            better = (np.take_along_axis(there, winner, -1)[..., 0] > value) & (step > _LAST)
            moved = np.take_along_axis(near, winner[..., None], 2)[:, :, 0]
            place = np.where(better[..., None], moved, place)
            value = np.where(better, np.take_along_axis(there, winner, -1)[..., 0], value)
            step = np.where(better, step, step / 2)
        for i, time in enumerate(unknown.tolist()):
            first = int(value[i].argmax())
            self._known[time] = float(value[i, first]), place[i, first]

    def _total(self, yaw: np.ndarray, t: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._powers(yaw, t).sum(-1)
        return found
