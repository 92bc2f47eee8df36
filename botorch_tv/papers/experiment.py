"""An experiment of a paper as data: worlds, strategies, sizes, and how its outcome is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from botorch_tv.simulation import StudyResult, World, run_study
from botorch_tv.strategies import Strategy
from botorch_tv.validation import require

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Results = Mapping[str, StudyResult]


class Outcome(NamedTuple):
    """What an experiment showed.

    Attributes:
        table: The numbers behind the verdict, one claim or cell a row.
        verdict: The verdict in words.
        holds: Whether the paper's claims hold; None where the paper gives nothing to test.
    """

    table: pd.DataFrame
    verdict: str
    holds: bool | None


@dataclass(frozen=True)
class Case:
    """One study of an experiment. Both parts are made from the variance of the noise.

    Args:
        title: What distinguishes it, as a caption.
        world: Where objectives are drawn from.
        strategies: Who meets in it, by label.
    """

    title: str
    world: Callable[[float], World]
    strategies: Callable[[float], dict[str, Strategy]]


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Args:
        id: Name on the command line.
        title: One line on what it shows.
        horizon: Rounds T.
        trials: Trials unless told otherwise.
        noise: Variance of the noise unless told otherwise; one for each case where they differ.
        cases: Its studies, by a name fit for a file.
        score: From the results to the outcome.
        picture: From the results to a figure, written to the path.
    """

    id: str
    title: str
    horizon: int
    trials: int
    noise: float | Mapping[str, float]
    cases: Mapping[str, Case]
    score: Callable[[Results], Outcome]
    picture: Callable[[Results, Path], Figure]

    def run(
        self,
        folder: Path,
        *,
        trials: int | None = None,
        noise: float | None = None,
        seed: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
        chunk: int | None = None,
        lasting: bool = False,
        progress: bool = True,
    ) -> Outcome:
        """Run every study, judge them, and write results, tables and picture.

        Each study is written as soon as it is done.

        Args:
            folder: Where to write; made if it does not exist. Files start with the id.
            trials: Trials of each study.
            noise: Variance of the noise, of the world and of the models.
            seed: Seed of every study.
            device: Where to compute.
            dtype: float64 or float32.
            chunk: Trials that run together.
            lasting: Whether finished trials are kept in :meth:`chunk_folders`, from which the same
                call goes on after an interruption.
            progress: Whether to show a progress bar per study.

        Raises:
            ValueError: If ``noise`` is given, but the cases differ in theirs.
        """
        import pandas as pd

        variances = {name: self.noise_of(name, noise) for name in self.cases}
        chunks = self.chunk_folders(folder)
        results = {}
        for name, case in self.cases.items():
            results[name] = run_study(
                case.world(variances[name]),
                case.strategies(variances[name]),
                trials=self.trials if trials is None else trials,
                horizon=self.horizon,
                seed=seed,
                device=device,
                dtype=dtype,
                chunk=chunk,
                save_to=chunks[name] if lasting else None,
                progress=progress,
            )
            results[name].save(folder / f"{self.id}-{name}.nc")
        outcome = self.score(results)
        outcome.table.to_csv(folder / f"{self.id}-verdict.csv", index=False)
        summaries = {name: result.summary() for name, result in results.items()}
        pd.concat(summaries, names=["case"]).to_csv(folder / f"{self.id}-summary.csv")
        self.picture(results, folder / f"{self.id}.png")
        return outcome

    def chunk_folders(self, folder: Path) -> dict[str, Path]:
        """Where every study keeps its finished trials while it lasts, by the name of its case.

        Args:
            folder: Where results are written.
        """
        return {name: folder / f"{self.id}-{name}.chunks" for name in self.cases}

    def noise_of(self, case: str, told: float | None = None) -> float:
        """Variance of the noise in a case.

        Args:
            case: Its name.
            told: What the user wants; None for the experiment's own.

        Raises:
            ValueError: If the user wants one, but the cases differ in theirs.
        """
        if isinstance(self.noise, Mapping):
            require(
                told is None,
                f"{self.id}: noise is {told}, but its cases have variances of their own, "
                f"{self.noise[case]:.4g} at {case}; leave the noise out.",
            )
            return self.noise[case]
        return self.noise if told is None else told


def draw_panels(cases: Mapping[str, Case], results: Results, path: Path) -> Figure:
    """Regret curves, one panel per case under its title."""
    from botorch_tv.simulation.plots import plot_panels

    return plot_panels({cases[name].title: one for name, one in results.items()}, path)
