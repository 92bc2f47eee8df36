"""What a regret study leaves behind: one labelled dataset, its summary, its pictures, its file."""

from __future__ import annotations

import importlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

try:
    import numpy as np
    import pandas as pd
    import xarray as xr
except ImportError as error:
    raise ImportError(
        f"Regret studies need {error.name}, which is not installed: pip install 'botorch-tv[study]'"
    ) from error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSIONS = ("strategy", "trial", "round")
REQUIRED = ("regret", "resets")


class Paired(NamedTuple):
    """A mean over paired trials and how certain it is.

    Attributes:
        mean: Mean over trials of the difference in total regret R_T.
        standard_error: Its standard error; NaN for a single trial.
    """

    mean: float
    standard_error: float

    @property
    def t_ratio(self) -> float:
        """The mean counted in standard errors; NaN where the standard error is 0 or unknown."""
        return self.mean / self.standard_error if self.standard_error > 0 else math.nan

    @classmethod
    def of(cls, differences: np.ndarray) -> Paired:
        """Mean and standard error of one number per trial.

        Args:
            differences: `trials` numbers.
        """
        trials = len(differences)
        spread = float(differences.std(ddof=1)) if trials > 1 else math.nan
        return cls(float(differences.mean()), spread / math.sqrt(trials))


@dataclass(frozen=True, repr=False)
class StudyResult:
    """Every trial of a regret study, labelled.

    All strategies of a study face the same worlds and the same noise, so they are compared trial
    by trial: the standard error of a paired difference is far below that of either mean.

    Args:
        data: Dataset with dimensions `strategy x trial x round` and at least the variables
            `regret` (instantaneous, noiseless: max_x f_t(x) − f_t(x_t)) and `resets` (bool: data
            were forgotten in this round). Its attributes say how it came about: seed, noise,
            world, versions, wall time in seconds.

    Raises:
        ValueError: If a variable or a dimension is missing, or there is nothing in it.
    """

    data: xr.Dataset

    def __post_init__(self) -> None:
        missing = [name for name in REQUIRED if name not in self.data]
        if missing:
            raise ValueError(
                f"A study result needs the variables {', '.join(REQUIRED)}; "
                f"{', '.join(missing)} missing. Make one with run_study."
            )
        for name in REQUIRED:
            if set(self.data[name].dims) != set(DIMENSIONS):
                raise ValueError(
                    f"The variable {name} has dimensions {self.data[name].dims}; a study result "
                    f"needs {DIMENSIONS}. Make one with run_study."
                )
        empty = [name for name in DIMENSIONS if self.data.sizes[name] == 0]
        if empty:
            raise ValueError(f"The study result holds no {empty[0]}; it needs at least 1.")

    def __repr__(self) -> str:
        size = self.data.sizes
        return (
            f"StudyResult({size['strategy']} strategies x {size['trial']} trials x "
            f"{size['round']} rounds: {', '.join(self.strategies)})"
        )

    @property
    def strategies(self) -> list[str]:
        """Labels of the strategies, in the order of the study."""
        return [str(label) for label in self.data["strategy"].values]

    @property
    def regret(self) -> xr.DataArray:
        """Instantaneous noiseless regret, `strategy x trial x round`."""
        return self.data["regret"].transpose(*DIMENSIONS)

    @property
    def resets(self) -> xr.DataArray:
        """Whether data were forgotten in this round, bool, `strategy x trial x round`."""
        return self.data["resets"].transpose(*DIMENSIONS)

    def total_regret(self, strategy: str) -> np.ndarray:
        """Cumulative regret R_T of one strategy in every trial.

        Args:
            strategy: Its label.

        Returns:
            `trials` numbers.

        Raises:
            ValueError: If the study has no such strategy.
        """
        if strategy not in self.strategies:
            raise ValueError(
                f"The study has no strategy {strategy!r}; it has {', '.join(self.strategies)}."
            )
        totals: np.ndarray = self.regret.sel(strategy=strategy).sum("round").values
        return totals

    def paired_difference(self, first: str, second: str) -> Paired:
        """How much more regret the first strategy pays than the second, trial by trial.

        Args:
            first: Label of a strategy.
            second: Label of the one it is compared with.

        Returns:
            Mean and standard error over trials of R_T(first) − R_T(second).

        Raises:
            ValueError: If the study has no such strategy.
        """
        return Paired.of(self.total_regret(first) - self.total_regret(second))

    def summary(self) -> pd.DataFrame:
        """One row per strategy, lowest regret first.

        Returns:
            Columns `total_regret` (mean R_T) and its `standard_error`, `regret_per_round`,
            `resets` (mean per trial), and the paired comparison with the best strategy:
            `difference` (mean of this − best), `difference_error` (its standard error) and
            `t_ratio` (the difference counted in standard errors). The comparison is NaN in the
            best strategy's own row, standard errors are NaN for a single trial.
        """
        resets = self.resets.sum("round").mean("trial")
        totals = {label: Paired.of(self.total_regret(label)) for label in self.strategies}
        order = sorted(totals, key=lambda label: totals[label].mean)
        rows = []
        for label in order:
            row: dict[str, float] = {
                "total_regret": totals[label].mean,
                "standard_error": totals[label].standard_error,
                "regret_per_round": totals[label].mean / self.data.sizes["round"],
                "resets": float(resets.sel(strategy=label)),
            }
            if label != order[0]:
                gap = self.paired_difference(label, order[0])
                row |= {
                    "difference": gap.mean,
                    "difference_error": gap.standard_error,
                    "t_ratio": gap.t_ratio,
                }
            rows.append(row)
        columns = ["total_regret", "standard_error", "regret_per_round", "resets"]
        columns += ["difference", "difference_error", "t_ratio"]
        return pd.DataFrame(
            rows, index=pd.Index(order, name="strategy"), columns=columns, dtype=float
        )

    def first_reset(self) -> xr.DataArray:
        """The round of the first reset, NaN where a trial never reset; `strategy x trial`."""
        rounds = self.data["round"].astype(float)
        return rounds.where(self.resets).min("round").transpose("strategy", "trial")

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Regret curves with error bands, resets as ticks below them.

        Args:
            path: Where to write the picture; its ending chooses the format.
        """
        from botorch_tv.simulation.plots import plot_regret

        return plot_regret(self, path)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write everything to one compressed netCDF file, all of it or nothing.

        The file appears under its name only once it is complete, so an interrupted save leaves
        an older file as it was. Folders that do not exist are made.

        Args:
            path: The file, `.nc` by custom.

        Returns:
            The path written.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
        encoding = {
            str(name): {"zlib": True, "complevel": 4, "shuffle": True}
            for name in self.data.data_vars
        }
        try:
            self.data.to_netcdf(unfinished, engine=_engine(), encoding=encoding)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        return path

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StudyResult:
        """Read a file written by `save`, into memory as a whole.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is damaged, or no study result.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no file {path}: check the path.")
        engine = _engine()
        try:
            data = xr.load_dataset(path, engine=engine)
        except PermissionError:
            raise
        except Exception as error:  # whatever the HDF5 layers make of damaged bytes
            raise ValueError(
                f"{path} is damaged or no netCDF file ({type(error).__name__}: "
                f"{str(error).splitlines()[0][:120] if str(error) else 'no message'}). "
                "Restore it from a copy, or run the study again."
            ) from error
        try:
            data = data.assign_coords(strategy=data["strategy"].astype(str))
            data.attrs = {name: _plain(value) for name, value in data.attrs.items()}
            return cls(data)
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{path} is a netCDF file, but no study result: {error} "
                "Give a file that StudyResult.save or botorch-tv wrote."
            ) from error


def _engine() -> Literal["h5netcdf"]:
    """The name of the netCDF engine, once it is known to be there."""
    try:
        for module in ("h5netcdf", "h5py"):
            importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Saving and loading studies need {error.name}, which is not installed: "
            "pip install 'botorch-tv[study]'"
        ) from error
    return "h5netcdf"


def _plain(value: Any) -> Any:
    """An attribute as str, int or float, which the file gives back as a numpy scalar."""
    return value.item() if isinstance(value, np.generic) else value
