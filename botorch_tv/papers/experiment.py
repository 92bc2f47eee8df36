"""The parts of a paper's experiment: its cases (studies on drawn objectives or on recorded data),
its sizes, and its claims with their tests.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pandas as pd

from botorch_tv.papers.recordings import STAND_IN, Recordings
from botorch_tv.simulation import Recorder, StudyResult, World, run_study
from botorch_tv.simulation.plots import plot_panels
from botorch_tv.strategies import Grid, Strategy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Stage = tuple[World, dict[str, Strategy]]
OTHER_DATA = "Other data than the paper's"


class Case(ABC):
    """A case: a study of an experiment.

    Attributes:
        title: A caption that distinguishes the case from the other cases.
        noise: Variance of the noise; None if it depends on the data.
        trials: Largest number of distinct trials; None for any number.
        horizon: Largest number of rounds; None for any number.
    """

    title: str
    noise: float | None
    trials: int | None = None
    horizon: int | None = None

    @abstractmethod
    def stage(self, data: Path | None = None) -> Stage:
        """Two values: the world (simulated objectives); and a dict from labels to strategies.

        Args:
            data: Folder of records; None for synthetic records.
        """


@dataclass(frozen=True)
class Drawn(Case):
    """A study on drawn objectives.

    Args:
        title: A caption that distinguishes the case from the other cases.
        variance: Variance of the noise, or a function that computes it.
        world: Function from the noise variance to the world.
        strategies: Function from the noise variance to a dict of strategies, with labels as keys.
        horizon: Largest number of rounds of this case; None for the experiment's number of rounds.
        fixed: Whether all trials have the same functions; the trials then differ in noise alone.
    """

    title: str
    variance: float | Callable[[], float]
    world: Callable[[float], World]
    strategies: Callable[[float], dict[str, Strategy]]
    horizon: int | None = None
    fixed: bool = False

    @cached_property
    def noise(self) -> float:  # type: ignore[override]
        return self.variance() if callable(self.variance) else self.variance

    def stage(self, data: Path | None = None) -> Stage:
        return self.world(self.noise), self.strategies(self.noise)


@dataclass(frozen=True)
class Recorded(Case):
    """A study on recorded data.

    Args:
        title: A caption that distinguishes the case from the other cases.
        world: Function that makes the world from the records.
        strategies: Function that makes the strategies from the world's covariance, noise and rate
            of change.
        instead: Name of the data that replaces the paper's data if the paper's data are missing.
            The paper is not judged on replacement data.
        record: File name of the paper's record in the user's folder; None if this record is not
            available.
        trials: Number of distinct trials; by default the number of arms, because trials differ in
            their first arm.
    """

    title: str
    world: Callable[[Recordings], Any]
    strategies: Callable[[Any], dict[str, Strategy]]
    instead: str
    record: str | None = None
    trials: int | None = None
    noise = None

    def stage(self, data: Path | None = None) -> Stage:
        world = self.world(Recordings(data))
        return world, self.strategies(world)

    def other_data(self, folder: Path | None) -> list[str]:
        """Name of the data that replaces the paper's data; empty if the paper's data are played.

        Args:
            folder: Folder of records; None for synthetic records.
        """
        own = self.record is not None and Recordings(folder).has(self.record)
        return [] if own else [self.instead]


Results = Mapping[str, StudyResult]


class Outcome(NamedTuple):
    """The outcome of an experiment.

    Attributes:
        table: The numbers behind the verdict, one row per claim or cell.
        verdict: The verdict as text.
        holds: Whether the paper's claims hold; None if there is nothing to test, or if some claims
            are level and all others hold.
        judged: Whether the run can judge the paper, because it was large enough and used real data.
    """

    table: pd.DataFrame
    verdict: str
    holds: bool | None
    judged: bool = True


@dataclass(frozen=True)
class Experiment:
    """A reproducible figure or table of a paper.

    Args:
        id: Name on the command line.
        title: One line about the experiment.
        paper: What the paper reports, in a sentence or two.
        horizon: Rounds T; a shorter record is played to its end.
        trials: Default number of trials. If a record has fewer distinct trials than this number,
            each distinct trial is played once.
        cases: A dict of cases; the keys are names that are valid in file names.
        score: Function that judges the results.
        picture: Function that draws the results and writes the figure to a path; by default it
            draws regret curves, in a panel per case.
        record: Recorders that record additional variables during a study.
        remark: Settings that the paper does not give, and reasons why results may differ from the
            paper.
        quick: Two numbers for a quick run: the largest number of trials, and the largest number of
            rounds.
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
    quick: tuple[int, int] = (3, 400)

    def run(
        self,
        folder: Path,
        *,
        trials: int | None = None,
        data: Path | None = None,
        quick: bool = False,
        lasting: bool = False,
        **options: Any,
    ) -> Outcome:
        """Run every study, judge the results, and write results, tables and figure.

        The result of each study is written as soon as the study is finished.

        Args:
            folder: Folder for the results, created if missing. File names start with the
                experiment's id.
            trials: Trials per study.
            data: Folder of the records of :mod:`~botorch_tv.papers.recordings`; without a folder,
                records are synthetic and nothing is judged.
            quick: Whether to limit the run to the numbers of trials and rounds in :attr:`quick`; a
                limited run has no verdict.
            lasting: Whether to store finished trials in :meth:`chunk_folders`; the same call then
                resumes after an interruption.
            options: Further arguments of :func:`~botorch_tv.simulation.run_study`, such as
                ``seed``, ``device``, ``dtype``, ``chunk`` and ``progress``.

        Raises:
            FileNotFoundError: If ``data`` lacks a record.
        """
        sizes = [(self.trials, self.horizon), *[self.quick] * quick]
        count, longest = (min(size) for size in zip(*sizes))
        chunks = self.chunk_folders(folder)
        results, others, doubts = {}, list[str](), ["A quick look, too small to be judged."] * quick
        for name, case in self.cases.items():
            world, strategies = case.stage(data)
            most = [count if trials is None else trials, case.trials]
            if isinstance(case, Recorded):
                doubts += [STAND_IN] * (data is None)
                others += case.other_data(data)
                arms = len(cast(Grid, world.domain))
                most += [arms] if case.trials is None else []
            longests = [longest, case.horizon, world.horizon]
            results[name] = run_study(
                world,
                strategies,
                trials=min(size for size in most if size is not None),
                horizon=min(size for size in longests if size is not None),
                save_to=chunks[name] if lasting else None,
                record=self.record,
                **options,
            )
            results[name].save(folder / f"{self.id}-{name}.nc")
        outcome = self.score(results)
        if doubts:  # numbers only: no answers and no verdict
            table = outcome.table.drop(columns="answer", errors="ignore")
            outcome = Outcome(table, " ".join(dict.fromkeys(doubts)), None, judged=False)
        elif others:
            verdict = f"{OTHER_DATA}: {', '.join(dict.fromkeys(others))}. {outcome.verdict}"
            outcome = Outcome(outcome.table, verdict, None, judged=False)
        outcome.table.to_csv(folder / f"{self.id}-verdict.csv", index=False)
        summaries = {name: result.summary() for name, result in results.items()}
        pd.concat(summaries, names=["case"]).to_csv(folder / f"{self.id}-summary.csv")
        picture = self.picture or partial(draw_panels, self.cases)
        picture(results, folder / f"{self.id}.png")
        entry = {"id": self.id, "title": self.title, "paper": self.paper, **outcome._asdict()}
        del entry["table"]
        text = json.dumps(entry | {"remark": self.remark}, indent=2, ensure_ascii=False)
        (folder / f"{self.id}.json").write_text(text + "\n", encoding="utf-8")
        return outcome

    @property
    def errors(self) -> str:
        """For cases whose trials share objectives: a text that states how the trials differ."""
        over: dict[str, list[str]] = {"first arms": [], "rows of one record": [], "noise": []}
        for name, case in self.cases.items():
            if isinstance(case, Recorded):
                over["first arms" if case.trials is None else "rows of one record"].append(name)
            elif isinstance(case, Drawn) and case.fixed:
                over["noise"].append(name)
        every = len(self.cases)
        return " ".join(
            f"{'Within a case' if len(names) == every else 'At ' + ', '.join(names)} standard "
            f"errors are over {difference} alone."
            for difference, names in over.items()
            if names
        )

    def chunk_folders(self, folder: Path) -> dict[str, Path]:
        """For each case, the folder in which an unfinished study stores its finished trials.

        Args:
            folder: Where results are written.
        """
        return {name: folder / f"{self.id}-{name}.chunks" for name in self.cases}


def draw_panels(cases: Mapping[str, Case], results: Results, path: Path, **scales: bool) -> Figure:
    """Draw regret curves, one panel per case; ``scales`` are options of ``plot_panels``."""
    titled = {cases[name].title: result for name, result in results.items()}
    return plot_panels(titled, path, **scales)
