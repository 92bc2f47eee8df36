"""All that is to be known of a GPU, in at most ten minutes, without the internet.

    python -m benchmarks.gpu --out DIR [--device cuda] [--minutes 9.5] [--parts NAME ...]
        [--quick] [--commit HASH]

Each part runs in a process of its own with a time limit, and one that fails leaves the others be:

- `choices`: every preset plays the same study on the CPU and on the device, choice for choice;
- `tests`: the tests that need a GPU (`pytest -m gpu`);
- `rounds`: rounds captured as CUDA graphs beside those that are not, and rounds that consult an
  expert;
- `figure4-float64`, `figure4-float32`: the 30,000 trials of [ET] figure 4;
- `loops`: 4,096 loops on a box, told nothing and told, as one batch;
- `boxes`: 64 loops on a box beside two written with BoTorch;
- `limits`: how close a round comes to what the device can do.

DIR gets one JSON file per part, as soon as it ends, and `index.json`, written anew after each: the
device, versions and commit, and for every part its command, its seconds and how it ended, with the
end of its output where it failed. `--commit` names the commit of a copy without its history.
`--device cpu --quick` runs the same at sizes of seconds, to try the command itself.

A machine without the internet needs torch, gpytorch, botorch, numpy, xarray, pandas, matplotlib and
tqdm (which BoTorch and the usual images bring), and pytest and hypothesis for the tests; nothing
writes netCDF. A package that is missing travels as wheels: `pip download --no-deps
--only-binary=:all: --python-version 3.12 -d wheels NAME==VERSION` where there is internet, and
`pip install --no-index --no-deps --target DIR wheels/*.whl` with DIR on PYTHONPATH where there is
none.
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


def missing(packages: Sequence[str]) -> list[str]:
    """Those of some packages that are not installed here."""
    return [name for name in packages if find_spec(name) is None]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="All that is to be known of a GPU."
    )
    names = [part.name for part in PARTS]
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu to try it")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all parts together")
    parser.add_argument("--parts", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="sizes of seconds")
    parser.add_argument("--commit", help="of a copy without its history")
    options = parser.parse_args(arguments)
    absent = missing(NEEDED)
    if absent:
        parser.error(
            f"{', '.join(absent)} not installed here; without the internet bring wheels, as the "
            "first lines of benchmarks/gpu/__main__.py tell."
        )
    import torch

    if torch.device(options.device).type == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no CUDA device here; try the command by --device cpu --quick")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the parts; returns the index that is written."""
    options = parse(arguments)
    size = Size(options.device, options.quick)
    chosen: list[Part] = [part for part in PARTS if part.name in options.parts]
    index = run_parts(
        chosen, size, options.out, seconds=60 * options.minutes, commit=options.commit
    )
    for one in index["parts"]:
        print(f"{one['name']:18}{one['ended']:18}{one['seconds']:7.1f} s")
    return index


if __name__ == "__main__":
    failed = [one["name"] for one in main()["parts"] if one["ended"] != "done"]
    sys.exit(f"not done: {', '.join(failed)}" if failed else 0)
