"""The command `botorch-tv`: it compares strategies, reruns papers, plots studies and runs loops.

Heavy imports are inside functions, so that `--help` and `--version` are fast.
"""

from __future__ import annotations

import argparse
import io
import os
import re
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
"""The usual exit code of a program that wrote to a closed pipe."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; None for the arguments of the process.

    Returns:
        The exit code: 0 for success, 1 if a paper's claim does not hold or results of `doctor` are
        not exact, 2 for bad input (with a line on standard error), 130 when interrupted, 141 if the
        program that reads the output has stopped.
    """
    arguments = argparse.Namespace()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # its encoding may lack letters such as ±
            stream.reconfigure(errors="backslashreplace")
    try:
        _parser().parse_args(argv, arguments)
        with warnings.catch_warnings():
            # Imported libraries call `torch.jit.script`, so users cannot avoid its warning.
            warnings.filterwarnings(
                "ignore", "`torch.jit.script` is deprecated", FutureWarning, r"torch\.jit"
            )
            code: int = arguments.run(arguments) or 0  # most commands return None
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as error:
        notes = getattr(error, "__notes__", [])  # a study says what is finished
        print("\n" + ": ".join(["botorch-tv: interrupted", *notes]), file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # At exit Python writes output that is still buffered; this output must go to the null
        # device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD
    except Exception as error:
        from botorch.exceptions import BotorchError
        from torch import OutOfMemoryError

        # These errors have messages that say what to do; other errors are bugs and print a
        # traceback.
        expected = (ValueError, OSError, ImportError, MemoryError, BotorchError, OutOfMemoryError)
        if not isinstance(error, expected):
            raise
        texts = [str(error) or type(error).__name__, *getattr(error, "__notes__", [])]
        # Other messages, such as of a value outside its range, need no list of numbers.
        if "hint" in arguments and re.search(r"suggestions are|measurement -?\d", texts[0]):
            texts.append(arguments.hint.format(file=arguments.file))
        print("botorch-tv: error:", " ".join(" ".join(texts).split()), file=sys.stderr)
        return EXIT_ERROR


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="botorch-tv", description="Time-varying Gaussian-process bandits.")
    version = f"botorch-tv {botorch_tv.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, more: str = "") -> argparse.ArgumentParser:
        form = argparse.ArgumentDefaultsHelpFormatter
        made = commands.add_parser(name, formatter_class=form, help=text, description=text + more)
        made.set_defaults(run=run)
        return made

    text = "compare the regret of strategies on the same drifting objectives"
    compare = command("compare", _compare, text)
    add_compare_options(compare)
    text = "store finished trials; the same command resumes from them, more --trials extend them"
    option(compare, "--save-to", text, type=Path, metavar="FOLDER")
    _add_run_options(compare, out="botorch-tv-compare")

    text = "rerun a figure or table of a paper and check its claims"
    paper = command("paper", _paper, text, "; exit code 1: a claim did not hold")
    paper.add_argument("id", metavar="ID", help="an experiment, 'list' for a list, or 'all'")
    option(paper, "--trials", "number of trials (default: as published)", type=int)
    text = "folder of recorded data for some experiments (default: synthetic data, no verdict)"
    option(paper, "--data", text, type=Path, metavar="FOLDER")
    text = "few trials of few rounds, as a test, in OUT/quick; no verdict"
    paper.add_argument("--quick", action="store_true", help=text)
    _add_run_options(paper, out="botorch-tv-papers")

    add_loop_options(commands)
    text = "print installed versions, speed, and whether results are exact, for bug reports"
    command("doctor", _doctor, text)
    plot = command("plot", _plot, "draw a saved study again and print its summary")
    plot.add_argument("file", type=Path, metavar="FILE", help="a .nc file that botorch-tv wrote")
    option(plot, "--out", "the picture (default: FILE with .png)", type=Path)
    return parser


def _add_run_options(parser: argparse.ArgumentParser, out: str) -> None:
    add = partial(option, parser.add_argument_group("run"))
    add("--seed", "seed of all random numbers", 0)
    add("--device", "cpu, cuda, cuda:1, ...", "cpu")
    add("--dtype", "precision", "float64", choices=("float64", "float32"))
    add("--chunk", "trials at once (default: as memory allows)", type=int)
    add("--out", "folder for results, created if missing", Path(out), type=Path)
    add("--quiet", "no progress bar", action="store_true")


def _compare(arguments: argparse.Namespace) -> None:
    from botorch_tv.cli.compare import comparison
    from botorch_tv.simulation import run_study

    world, strategies, horizon, text = comparison(arguments)
    options, folder = _run_options(arguments), arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    if text:
        print(f"{text}\n")
    options |= {"trials": arguments.trials, "save_to": vars(arguments).get("save_to")}
    result = run_study(world, strategies, horizon=horizon, **options)
    result.save(folder / "compare.nc")
    result.summary().to_csv(folder / "compare.csv")
    result.plot(folder / "compare.png")
    written = f"{result.data.attrs['seconds']:.1f} s. Written: {folder}/compare.nc, .csv, .png"
    _report(result, written)


def _paper(arguments: argparse.Namespace) -> int:
    from botorch_tv.papers import EXPERIMENTS, experiment_named
    from botorch_tv.papers.claims import outcome_text
    from botorch_tv.papers.recordings import Recordings
    from botorch_tv.simulation.store import discard

    given = vars(arguments)
    if arguments.id == "list":
        for experiment in EXPERIMENTS.values():
            size = f"{experiment.trials} trials x {experiment.horizon} rounds"
            print(f"{experiment.id:20}  {size:26}  {experiment.title}")
        return 0
    every = arguments.id == "all"
    chosen = list(EXPERIMENTS.values()) if every else [experiment_named(arguments.id)]
    options, folder = _run_options(arguments), arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    data, refuted = given.get("data"), False
    if data is not None and every:
        Recordings(data).check()
    if arguments.quick:
        folder /= "quick"  # so that quick results do not overwrite full results
        folder.mkdir(exist_ok=True)
    for experiment in chosen:
        quick, trials = arguments.quick, given.get("trials")
        settings = {"data": data, "quick": quick, "lasting": not quick} | options
        outcome = experiment.run(folder, trials=trials, **settings)
        print(f"{experiment.id}: {experiment.title}")
        print(f"The paper: {experiment.paper}")
        print(f"\n{outcome_text(outcome)}\n")
        if experiment.errors:
            print(f"{experiment.errors}\n")
        print(f"Written: {folder}/{experiment.id}*.nc, .csv, .json, .png\n")
        refuted |= outcome.holds is False
    if not arguments.quick:  # discard chunks last, because an interrupted 'all' resumes from them
        for experiment in chosen:
            for chunks in experiment.chunk_folders(folder).values():
                discard(chunks, given.get("trials", experiment.trials))
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

    text, exact = examine()
    print(text)
    return 0 if exact else EXIT_REFUTED


def _plot(arguments: argparse.Namespace) -> None:
    from botorch_tv.simulation import StudyResult

    result = StudyResult.load(arguments.file)
    picture = vars(arguments).get("out", arguments.file.with_suffix(".png"))
    result.plot(picture)
    _report(result, f"Written: {picture}")


def _report(result: StudyResult, written: str) -> None:
    from botorch_tv.simulation.result import verdict

    print(f"{result.summary()}\n\n{verdict(result)}\n{written}")
