"""The command `botorch-tv`: compare strategies, rerun papers, plot studies, run loops in files.

Nothing heavy is imported before a command needs it, so `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import botorch_tv
from botorch_tv.cli.loop import add_loop_options, option
from botorch_tv.cli.options import add_compare_options

if TYPE_CHECKING:
    from botorch_tv.simulation import StudyResult

EXIT_REFUTED, EXIT_ERROR, EXIT_INTERRUPTED = 1, 2, 130
EXIT_UNREAD = 141
"""As the shell reports a program that wrote to a closed pipe."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: Arguments; those of the process unless given.

    Returns:
        The exit code: 0 if all went well, 1 if a paper's claim did not hold or the doctor found
        numbers that are not exact, 2 for bad input (told in one line on standard error), 130 when
        interrupted, 141 if the output was piped to a program that stopped reading, such as head.
    """
    arguments = argparse.Namespace()
    try:
        _parser().parse_args(argv, arguments)
        with warnings.catch_warnings():
            # Libraries that this package imports use it; a user cannot change that.
            warnings.filterwarnings(
                "ignore", "`torch.jit.script` is deprecated", FutureWarning, r"torch\.jit"
            )
            code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print(f"\nbotorch-tv: interrupted{_how_to_go_on(arguments)}", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Python flushes the output once more as it ends; what is left of it has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD
    except Exception as error:
        from botorch.exceptions import BotorchError
        from torch import OutOfMemoryError

        # Their messages say what to change; other errors are bugs and keep their traceback.
        told = (ValueError, OSError, ImportError, MemoryError, BotorchError, OutOfMemoryError)
        if not isinstance(error, told):
            raise
        words = [str(error) or type(error).__name__, *getattr(error, "__notes__", [])]
        if isinstance(error, BotorchError) and "hint" in arguments:
            words.append(arguments.hint.format(file=arguments.file))
        print("botorch-tv: error:", " ".join(" ".join(words).split()), file=sys.stderr)
        return EXIT_ERROR


def _how_to_go_on(arguments: argparse.Namespace) -> str:
    """How an interrupted study can be resumed."""
    given = vars(arguments)
    if given.get("run") is _compare and "save_to" not in given:
        return "; with --save-to FOLDER the next one can go on where it ended"
    folder = given.get("save_to", given.get("out") if given.get("quick") is False else None)
    return f"; the same command goes on from the trials kept in {folder}" if folder else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="botorch-tv", description="Time-varying Gaussian-process bandits.")
    parser.add_argument(
        "--version", action="version", version=f"botorch-tv {botorch_tv.__version__}"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    defaults = argparse.ArgumentDefaultsHelpFormatter

    compare = commands.add_parser(
        "compare",
        formatter_class=defaults,
        help="which strategy pays least regret when the objective drifts",
        description="Play strategies against each other on the same drifting objectives.",
    )
    compare.set_defaults(run=_compare)
    add_compare_options(compare)
    told = "also write why strategies reset, how their bands are calibrated, simple regret"
    compare.add_argument("--diagnose", action="store_true", help=told)
    told = "also map how far every strategy's posterior mean was from the objective"
    compare.add_argument("--prediction-error", action="store_true", help=told)
    told = "keep finished trials there; the same command goes on from them, more --trials extend"
    option(compare, "--save-to", told, type=Path, metavar="FOLDER")
    _add_run_options(compare, out="botorch-tv-compare")

    paper = commands.add_parser(
        "paper",
        formatter_class=defaults,
        help="rerun a figure or table of a paper and judge it",
        description="Rerun a figure or table of a paper. Exit code 1 says its claims did not hold.",
    )
    paper.set_defaults(run=_paper)
    paper.add_argument("id", metavar="ID", help="an experiment, 'list' to see them, or 'all'")
    option(paper, "--trials", "(default: its own)", type=int)
    option(paper, "--noise", "variance of the noise (default: its own)", type=float)
    told = "the records that some experiments play (default: made-up ones, and no verdict)"
    option(paper, "--data", told, type=Path, metavar="FOLDER")
    told = "few trials of few rounds, to see everything run, in OUT/quick; nothing is judged"
    paper.add_argument("--quick", action="store_true", help=told)
    _add_run_options(paper, out="botorch-tv-papers")

    add_loop_options(commands)
    told = "report installed versions, speed, and whether results are exact, for bug reports"
    commands.add_parser("doctor", help=told, description=told).set_defaults(run=_doctor)

    plot = commands.add_parser("plot", help="draw a saved study again and print its summary")
    plot.set_defaults(run=_plot)
    plot.add_argument("file", type=Path, metavar="FILE", help="a .nc file that botorch-tv wrote")
    plot.add_argument("--out", type=Path, help="the picture (default: FILE with .png)")
    return parser


def _add_run_options(parser: argparse.ArgumentParser, out: str) -> None:
    add = partial(option, parser.add_argument_group("run"))
    add("--seed", "same seed, same study", 0)
    add("--device", "cpu, cuda, cuda:1, ...", "cpu")
    add("--dtype", "precision", "float64", choices=("float64", "float32"))
    add("--chunk", "trials at once (default: as memory allows)", type=int)
    add("--out", "folder for results, made if absent", Path(out), type=Path)
    add("--quiet", "no progress bar", action="store_true")


def _compare(arguments: argparse.Namespace) -> int:
    from botorch_tv.cli.compare import comparison
    from botorch_tv.simulation import Diagnosis, PredictionError, Recorder, run_study

    recorders: list[Recorder] = [Diagnosis()] if arguments.diagnose else []
    recorders += [PredictionError()] if arguments.prediction_error else []
    world, strategies, horizon, told = comparison(arguments)
    options, folder = _run_options(arguments), arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    if told:
        print(f"{told}\n")
    result = run_study(
        world,
        strategies,
        trials=arguments.trials,
        horizon=horizon,
        record=recorders,
        save_to=vars(arguments).get("save_to"),
        **options,
    )
    result.save(folder / "compare.nc")
    result.summary().to_csv(folder / "compare.csv")
    result.plot(folder / "compare.png")
    written = f"{result.data.attrs['seconds']:.1f} s. Written: {folder}/compare.nc, .csv, .png"
    _tell(result, written, folder / "compare")
    return 0


def _paper(arguments: argparse.Namespace) -> int:
    from botorch_tv.papers import EXPERIMENTS, experiment_named
    from botorch_tv.papers.claims import outcome_text
    from botorch_tv.papers.recordings import Recordings
    from botorch_tv.simulation.store import discard

    given = vars(arguments)
    if arguments.id == "list":
        for one in EXPERIMENTS.values():
            size = f"{one.trials} trials x {one.horizon} rounds"
            print(f"{one.id:20}  {size:26}  {one.title}")
        return 0
    every = arguments.id == "all"
    chosen = list(EXPERIMENTS.values()) if every else [experiment_named(arguments.id)]
    options, folder = _run_options(arguments), arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    data, noise, refuted = given.get("data"), given.get("noise"), False
    for one in chosen:  # all before the first, so that 'all' does not fail hours later
        one.check_noise(noise)
    if data is not None and every:
        Recordings(data).check()
    if arguments.quick:
        folder /= "quick"  # beside the results of full size, not over them
        folder.mkdir(exist_ok=True)
    for one in chosen:
        outcome = one.run(
            folder,
            trials=given.get("trials"),
            noise=noise,
            data=data,
            quick=arguments.quick,
            lasting=not arguments.quick,
            **options,
        )
        print(f"{one.id}: {one.title}")
        print(f"The paper: {one.paper}")
        print(f"\n{outcome_text(outcome)}\n")
        print(f"Written: {folder}/{one.id}*.nc, .csv, .json, .png\n")
        refuted |= outcome.holds is False
    if not arguments.quick:  # only now, so that an interrupted 'all' repeats none of them
        for one in chosen:
            for chunks in one.chunk_folders(folder).values():
                discard(chunks, given.get("trials", one.trials))
    return EXIT_REFUTED if refuted else 0


def _run_options(arguments: argparse.Namespace) -> dict[str, Any]:
    import torch

    from botorch_tv.simulation.settings import usable_device

    return {
        "seed": arguments.seed,
        "device": usable_device(arguments.device),
        "dtype": getattr(torch, arguments.dtype),
        "chunk": vars(arguments).get("chunk"),
        "progress": "quiet" not in arguments,
    }


def _doctor(arguments: argparse.Namespace) -> int:
    from botorch_tv.cli.doctor import examine

    told, exact = examine()
    print(told)
    return 0 if exact else EXIT_REFUTED


def _plot(arguments: argparse.Namespace) -> int:
    from botorch_tv.simulation import StudyResult

    result = StudyResult.load(arguments.file)
    picture = arguments.out or arguments.file.with_suffix(".png")
    result.plot(picture)
    _tell(result, f"Written: {picture}", picture.with_suffix(""))
    return 0


def _tell(result: StudyResult, written: str, stem: Path) -> None:
    """Print a study, and print and write the diagnosis and prediction errors that it recorded."""
    from botorch_tv.simulation import result as report
    from botorch_tv.simulation.result import verdict

    print(f"{result.summary()}\n\n{verdict(result)}\n{written}")
    if result.diagnosed:
        print(f"\n{report.diagnosis_text(report.diagnosis_table(result))}")
        names = ", ".join(path.name for path in report.write_diagnosis(result, stem))
        print(f"Written to {stem.parent}: {names}")
    if "prediction_error" in result.data:
        print(f"\n{report.errors_text(result)}")
        for path in report.write_maps(result, stem):
            print(f"Written: {path}")
