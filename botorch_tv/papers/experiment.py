"""An experiment of a paper as data: cases, sizes, what the paper says, and how it is judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch

from botorch_tv.papers.cases import Case, Setting
from botorch_tv.simulation import Recorder, StudyResult, run_study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Results = Mapping[str, StudyResult]


class Outcome(NamedTuple):
    """The outcome of an experiment.

    Attributes:
        table: The numbers behind the verdict, one claim or cell a row.
        verdict: The verdict in words.
        holds: Whether the paper's claims hold; None where there is nothing to test.
        judged: Whether it was large enough, and on real data, for its verdict to count.
    """

    table: pd.DataFrame
    verdict: str
    holds: bool | None
    judged: bool = True


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
    """A reproducible figure or table of a paper.

    Args:
        id: Name on the command line.
        title: One line on what it shows.
        paper: What the paper reports, in a sentence or two.
        horizon: Rounds T; a record that has fewer is played to its end.
        trials: Trials unless told otherwise; a record that has fewer places to start from is played
            once from each.
        cases: Its studies, by a name fit for a file.
        score: From the results to the outcome.
        picture: From the results to a figure, written to the path; curves of regret, a panel per
            case, unless given.
        record: What to record besides regret, resets and choices.
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
    picture: Callable[[Results, Path], Figure] | None = None
    record: tuple[Recorder, ...] = ()
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

        self.check_noise(noise)
        count = min(self.trials, self.quick.trials) if quick else self.trials
        longest = min(self.horizon, self.quick.horizon) if quick else self.horizon
        chunks = self.chunk_folders(folder)
        results, doubts = {}, ["A quick look, too small to be judged."] if quick else []
        for name, case in self.cases.items():
            stage = case.stage(Setting(noise, data))
            if stage.doubt:
                doubts.append(stage.doubt)
            results[name] = run_study(
                stage.world,
                stage.strategies,
                trials=_least(count if trials is None else trials, stage.trials),
                horizon=_least(longest, stage.horizon, stage.world.horizon),
                seed=seed,
                device=device,
                dtype=dtype,
                chunk=chunk,
                save_to=chunks[name] if lasting else None,
                record=self.record,
                progress=progress,
            )
            results[name].save(folder / f"{self.id}-{name}.nc")
        outcome = _doubted(self.score(results), doubts)
        outcome.table.to_csv(folder / f"{self.id}-verdict.csv", index=False)
        summaries = {name: result.summary() for name, result in results.items()}
        pd.concat(summaries, names=["case"]).to_csv(folder / f"{self.id}-summary.csv")
        picture = self.picture or partial(draw_panels, self.cases)
        picture(results, folder / f"{self.id}.png")
        self._tell(folder, outcome)
        return outcome

    def chunk_folders(self, folder: Path) -> dict[str, Path]:
        """Where every study keeps its finished trials while it lasts, by the name of its case.

        Args:
            folder: Where results are written.
        """
        return {name: folder / f"{self.id}-{name}.chunks" for name in self.cases}

    def check_noise(self, told: float | None) -> None:
        """Refuse a variance of the noise where the cases have their own.

        Args:
            told: What the user wants; None for the experiment's own.

        Raises:
            ValueError: If there is one that cannot be had.
        """
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
            "judged": outcome.judged,
            "remark": self.remark,
        }
        text = json.dumps(told, indent=2, ensure_ascii=False)
        (folder / f"{self.id}.json").write_text(text + "\n", encoding="utf-8")


def _doubted(outcome: Outcome, doubts: list[str]) -> Outcome:
    """The same numbers, but no judgement where there is reason to doubt them."""
    if not doubts:
        return outcome
    told = " ".join(dict.fromkeys(doubts))
    table = outcome.table.drop(columns="holds", errors="ignore")
    return outcome._replace(table=table, verdict=told, holds=None, judged=False)


def _least(first: int, *others: int | None) -> int:
    return min([first, *(one for one in others if one is not None)])


def draw_panels(
    cases: Mapping[str, Case],
    results: Results,
    path: Path,
    *,
    one_scale: bool = True,
    logarithmic: bool = False,
) -> Figure:
    """Regret curves, one panel per case under its title."""
    from botorch_tv.simulation.plots import plot_panels

    titled = {cases[name].title: one for name, one in results.items()}
    return plot_panels(titled, path, one_scale=one_scale, logarithmic=logarithmic)
