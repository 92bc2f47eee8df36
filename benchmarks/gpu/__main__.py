"""Measurements on a GPU, within a limit of time and without internet access.

    python -m benchmarks.gpu --out DIR [--device cuda] [--minutes 9.5] [--parts NAME ...]
        [--quick] [--commit HASH]

Each part runs in a process of its own with a time limit; if one fails, the others still run:

- `choices`: every preset plays the same study on the CPU and on the device, choice for choice;
- `tests`: the tests that need a GPU (`pytest -m gpu`);
- `rounds`: rounds captured as CUDA graphs against eager rounds, and rounds that consult an expert;
- `loops`: 4,096 loops on a box as one batch, adaptive and with given hyperparameters;
- `limits`: how close a round comes to the limits of the device.

DIR gets a JSON file per part as soon as the part ends, and `index.json`: device, versions, commit,
and for every part its command, its seconds and how it ended, with the end of its output if it
failed. `--commit` names the commit of a copy without git history. `--device cpu --quick` tries the
command itself at minimal sizes.

A machine without internet access needs torch, gpytorch, botorch, numpy, xarray, pandas, matplotlib
and tqdm, and for the tests pytest and hypothesis. Bring a missing package as a wheel: `pip download
--no-deps --only-binary=:all: --python-version 3.12 -d wheels NAME==VERSION` elsewhere, then
`pip install --no-index --no-deps --target DIR wheels/*.whl` with DIR on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu.parts import PARTS, Part, Size
from benchmarks.gpu.session import run_parts

NEEDED = ("torch", "gpytorch", "botorch", "linear_operator", "numpy", "xarray", "pandas", "tqdm")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="Measurements on a GPU."
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try it")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all parts together")
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="minimal sizes")
    parser.add_argument("--commit", help="of a copy without git history")
    options = parser.parse_args(arguments)
    absent = [name for name in NEEDED if find_spec(name) is None]
    if absent:
        parser.error(
            f"{', '.join(absent)} not installed here; without the internet bring wheels, as the "
            "first lines of benchmarks/gpu/__main__.py say."
        )
    import torch

    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no CUDA device here; try the command by --device cpu --quick")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the parts and return the index."""
    options = parse(arguments)
    size = Size(options.device, options.quick)
    chosen: list[Part] = [part for part in PARTS if part.name in options.parts]
    index = run_parts(
        chosen, size, options.out, seconds=60 * options.minutes, commit=options.commit
    )
    for part in index["parts"]:
        print(f"{part['name']:18}{part['ended']:18}{part['seconds']:7.1f} s")
    return index


if __name__ == "__main__":
    failed = [part["name"] for part in main()["parts"] if part["ended"] != "done"]
    sys.exit(f"not done: {', '.join(failed)}" if failed else 0)
