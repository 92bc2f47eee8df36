"""An experiment of a paper as data: cases, sizes, what the paper says, and how it is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from botorch_tv.papers.cases import Case, Setting
from botorch_tv.simulation import StudyResult, run_study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Results = Mapping[str, StudyResult]


class Outcome(NamedTuple):
    """What an experiment showed.

    Attributes:
        table: The numbers behind the verdict, one claim or cell a row.
        verdict: The verdict in words.
        holds: Whether the paper's claims hold; None where there is nothing to test.
    """

    table: pd.DataFrame
    verdict: str
    holds: bool | None


class Quick(NamedTuple):
    """The most a quick look takes.

    Attributes:
        trials: Trials of each study.
        horizon: Rounds of each trial.
    """

    trials: int = 3
    horizon: int = 400


_LITTLE = Quick()


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Args:
        id: Name on the command line.
        title: One line on what it shows.
        paper: What the paper reports, in a sentence or two.
        horizon: Rounds T; a record that has fewer is played to its end.
        trials: Trials unless told otherwise.
        cases: Its studies, by a name fit for a file.
        score: From the results to the outcome.
        picture: From the results to a figure, written to the path.
        prediction_error: Whether to record how far strategies were from the truth on all arms.
        remark: What the paper leaves open, and why results may differ from it.
        quick: The most a quick look takes.
    """

    id: str
    title: str
    paper: str
    horizon: int
    trials: int
    cases: Mapping[str, Case]
    score: Callable[[Results], Outcome]
    picture: Callable[[Results, Path], Figure]
    prediction_error: bool = False
    remark: str = ""
    quick: Quick = _LITTLE

    def run(
        self,
        folder: Path,
        *,
        trials: int | None = None,
        noise: float | None = None,
        data: Path | None = None,
        quick: bool = False,
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
            data: Folder of the records of :mod:`~botorch_tv.papers.recordings`; without it a
                made-up record stands in for each, and nothing is judged.
            quick: Whether few trials of few rounds do, :attr:`quick`, and nothing is judged.
            seed: Seed of every study.
            device: Where to compute.
            dtype: float64 or float32.
            chunk: Trials that run together.
            lasting: Whether finished trials are kept in :meth:`chunk_folders`, from which the same
                call goes on after an interruption.
            progress: Whether to show a progress bar per study.

        Raises:
            ValueError: If ``noise`` is given, but the cases differ in theirs, or play a record.
            FileNotFoundError: If ``data`` lacks a record.
        """
        import pandas as pd

        self._check_noise(noise)
        count = self.trials if trials is None else trials
        most = self.quick if quick else Quick(count, self.horizon)
        chunks = self.chunk_folders(folder)
        results, doubts = {}, []
        for name, case in self.cases.items():
            stage = case.stage(Setting(noise, data))
            horizon = min(self.horizon, most.horizon, stage.world.horizon or self.horizon)
            if stage.doubt:
                doubts.append(stage.doubt)
            results[name] = run_study(
                stage.world,
                stage.strategies,
                trials=min(count, most.trials) if trials is None else trials,
                horizon=horizon,
                seed=seed,
                device=device,
                dtype=dtype,
                chunk=chunk,
                save_to=chunks[name] if lasting else None,
                prediction_error=self.prediction_error,
                progress=progress,
            )
            results[name].save(folder / f"{self.id}-{name}.nc")
        if quick:
            doubts.append("A quick look: too few trials or rounds to judge.")
        outcome = _doubted(self.score(results), doubts)
        outcome.table.to_csv(folder / f"{self.id}-verdict.csv", index=False)
        summaries = {name: result.summary() for name, result in results.items()}
        pd.concat(summaries, names=["case"]).to_csv(folder / f"{self.id}-summary.csv")
        self.picture(results, folder / f"{self.id}.png")
        self._tell(folder, outcome)
        return outcome

    def chunk_folders(self, folder: Path) -> dict[str, Path]:
        """Where every study keeps its finished trials while it lasts, by the name of its case.

        Args:
            folder: Where results are written.
        """
        return {name: folder / f"{self.id}-{name}.chunks" for name in self.cases}

    def _check_noise(self, told: float | None) -> None:
        if told is None:
            return
        known = {case.noise for case in self.cases.values()}
        if None in known:
            raise ValueError(
                f"{self.id}: noise is {told}, but it plays a record, whose noise is a share of its "
                "variance; leave the noise out."
            )
        if len(known) > 1:
            each = ", ".join(f"{case.noise:.4g} at {name}" for name, case in self.cases.items())
            raise ValueError(
                f"{self.id}: noise is {told}, but its cases have variances of their own, {each}; "
                "leave the noise out."
            )

    def _tell(self, folder: Path, outcome: Outcome) -> None:
        """Write the verdict beside what the paper says, for a page that collects them."""
        told = {
            "id": self.id,
            "title": self.title,
            "paper": self.paper,
            "verdict": outcome.verdict,
            "holds": None if outcome.holds is None else bool(outcome.holds),
            "remark": self.remark,
        }
        text = json.dumps(told, indent=2, ensure_ascii=False)
        (folder / f"{self.id}.json").write_text(text + "\n", encoding="utf-8")


def _doubted(outcome: Outcome, doubts: list[str]) -> Outcome:
    """The same numbers, but no judgement where there is reason to doubt them."""
    if not doubts:
        return outcome
    told = " ".join(dict.fromkeys(doubts))
    return outcome._replace(verdict=f"{told} {outcome.verdict}", holds=None)


def draw_panels(cases: Mapping[str, Case], results: Results, path: Path) -> Figure:
    """Regret curves, one panel per case under its title."""
    from botorch_tv.simulation.plots import plot_panels

    return plot_panels({cases[name].title: one for name, one in results.items()}, path)
