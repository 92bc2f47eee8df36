"""Records that the papers' experiments use, or records that replace them.

The records are read from a folder of the user, under these names:

- ``era5_uk_t2m_2019_03.npz``: air temperature over the United Kingdom, March 2019, hourly, 744
  rows of 33 x 49 cells in 1/100 K, from the ERA5 reanalysis. The temperatures replace the sensors
  of Intel's laboratory in Berkeley ([B16], [ET], [C17]) and the grid of Berkeley Earth ([M]).
- ``traffic_la_speed.npz``: speeds at 207 sensors on the roads of Los Angeles, in 1/100 mph, every
  five minutes for a week that starts on a Thursday, 2016 rows. The record of Los Angeles replaces
  the speeds on interstate 880 ([B16]).
- ``sp500_20_prices.csv.gz``: adjusted closing prices of 20 stocks, 1990 to 2022, 8313 days. The
  record of 20 stocks replaces the 29 stocks of [W22].

Two records of the papers may be in the folder too. The two records are files of the public
repository ``sayakrc/Bayesian-Optimization-under-Heavy-tailed-Payoffs``, which states no licence:

- ``fin.csv``: the prices of [W22], 29 stocks, 823 days of 2016 to 2019, in dollars. If ``fin.csv``
  exists, it replaces ``sp500_20_prices.csv.gz``.
- ``iw_data_all.mat``: the light sensors of [C17], 41 sensors in lux in an office of Carnegie Mellon
  University, November 2005, 601 rows for training and 192 for testing.

Without a folder, synthetic records replace all records, so every experiment runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from botorch_tv.simulation.panels import Panel, load_panel, make_panel

STAND_IN = "The record is synthetic, so nothing is judged; --data FOLDER plays a real record."

ERA5 = "era5_uk_t2m_2019_03.npz"
TRAFFIC = "traffic_la_speed.npz"
STOCKS = "sp500_20_prices.csv.gz"
PAPER_STOCKS = "fin.csv"
LIGHT = "iw_data_all.mat"


class Recordings:
    """The records in a folder.

    Args:
        folder: The folder; None for synthetic records.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def temperature(self, every: int = 1) -> Panel:
        """Hourly temperatures in kelvin on a grid of cells, located by latitude and longitude.

        Args:
            every: Stride along the rows and columns of the grid.

        Raises:
            FileNotFoundError: If the folder has no record of temperatures.
        """
        if self.folder is None:
            panel = make_panel(744, 120, epsilon=0.01, day=24, gaps=0.0)
            assert panel.coordinates is not None
            degrees = 50 + 8 * panel.coordinates
            return replace(panel, values=280 + 4 * panel.values, coordinates=degrees)
        path = self._path(ERA5)
        panel = load_panel(path, "t2m_kelvin_x100", axes=("lat", "lon"), every=every)
        return replace(panel, values=panel.values / 100)

    def traffic(self) -> Panel:
        """Speeds in miles per hour, every five minutes.

        Raises:
            FileNotFoundError: If the folder has no record of speeds.
        """
        if self.folder is None:
            panel = make_panel(2016, 60, day=288, gaps=0.0)
            return replace(panel, values=55 + 10 * panel.values)
        panel = load_panel(self._path(TRAFFIC), "speed_mph_x100")
        return replace(panel, values=panel.values / 100)

    def stocks(self) -> Panel:
        """Daily prices in dollars, of the paper's 29 stocks if the folder has them.

        Raises:
            FileNotFoundError: If the folder has no record of stocks.
        """
        if self.folder is None:
            panel = make_panel(1000, 20, epsilon=0.002, cycle=0.0, gaps=0.0)
            return replace(panel, values=np.exp(4 + 0.5 * panel.values))
        return load_panel(self._path(PAPER_STOCKS if self.has(PAPER_STOCKS) else STOCKS))

    def light(self) -> tuple[Panel, int] | None:
        """Two values: light in lux at the sensors of an office, and the number of training rows.

        Returns:
            Two values: the training rows followed by the test rows, as a :class:`Panel` with the
            coordinates of the sensors; and the number of training rows. None if the folder has no
            record of light.
        """
        if not self.has(LIGHT):
            return None
        from scipy.io import loadmat  # type: ignore[import-untyped]

        data = loadmat(self._path(LIGHT), squeeze_me=True, struct_as_record=False)["data"]
        parts = data.train.sensordataLux, data.test.sensordataLux
        values = np.concatenate(parts).astype(np.float64)
        arms = tuple(str(number) for number in range(values.shape[1]))
        places = np.asarray(data.coords, dtype=np.float64)
        return Panel(values, arms, coordinates=places), len(parts[0])

    def check(self) -> None:
        """Check that all required records exist, before a long run needs them.

        The papers' own records are optional.

        Raises:
            FileNotFoundError: If a record is missing.
        """
        for name in (ERA5, TRAFFIC, STOCKS):
            self._path(name)

    def has(self, name: str) -> bool:
        """Whether the folder has a record.

        Args:
            name: File name of the record.
        """
        return self.folder is not None and (self.folder / name).is_file()

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        path = self.folder / name
        if not path.is_file():
            raise FileNotFoundError(
                f"{self.folder} has no {name}; put it there (botorch_tv.papers.recordings "
                "describes it), or omit --data to use a synthetic record."
            )
        return path
