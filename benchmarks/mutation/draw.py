"""Which faults are tried: a draw over the core, as many in a file as it has lines."""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutation.mutants import Candidate, Mutant, candidates, mutants_of

CORE = (
    "forgetting",
    "gp",
    "acquisition",
    "strategies",
    "experts",
    "kernels",
    "likelihoods",
    "models",
    "learning",
    "simulation/worlds",
    "simulation/streams.py",
    "simulation/rounds.py",
    "simulation/recorders.py",
)
_PACKAGE = "botorch_tv"


def core(root: Path) -> list[str]:
    """The files of the core that hold more than imports."""
    found: list[Path] = []
    for part in CORE:
        place = root / _PACKAGE / part
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    names = [path.relative_to(root).as_posix() for path in found]
    # An __init__ at most imports on first access, which computes nothing.
    left_out = [name for name in names if "__init__" in name]
    return [name for name in names if name not in left_out and _statements(root, name)]


def draw(root: Path, count: int, seed: int, within: Sequence[str] = ()) -> list[Mutant]:
    """``count`` faults, spread over the files by their lines; the same for a seed.

    Args:
        root: The checkout.
        count: How many.
        seed: Of the draw; a file's faults do not depend on the other files.
        within: Beginnings of paths; unless empty, other files are left out.
    """
    names = [name for name in core(root) if name.startswith(tuple(within) or "")]
    sizes = [len((root / name).read_text().splitlines()) for name in names]
    drawn: list[Mutant] = []
    covered, lines = 0.0, max(1, sum(sizes))
    for name, size in zip(names, sizes, strict=True):
        share = round((covered + size) * count / lines) - round(covered * count / lines)
        covered += size
        numbers = _draw_file(candidates(root, name), share, random.Random(f"{seed} {name}"))
        drawn += mutants_of(root, name, numbers)
    return drawn


def _draw_file(found: list[Candidate], share: int, source: random.Random) -> set[int]:
    """Numbers of faults: a statement first, then the kind of fault, then the fault.

    A statement comes twice after all came once; else the constants of long lines would fill it.
    """
    source.shuffle(found)
    of_kind: dict[tuple[str, ...], int] = {}
    of_statement: dict[tuple[str, ...], int] = {}
    ranked = []
    for one in sorted(found, key=lambda one: _count(of_kind, (one.function, one.before, one.kind))):
        ranked.append((_count(of_statement, (one.function, one.before)), one.number))
    ranked.sort(key=lambda entry: entry[0])
    return {number for _, number in ranked[:share]}


def _statements(root: Path, name: str) -> bool:
    """Whether a file does more than import names and list them."""
    body = ast.parse((root / name).read_text()).body
    return any(isinstance(one, ast.FunctionDef | ast.ClassDef) for one in body)


def _count(counts: dict[tuple[str, ...], int], key: tuple[str, ...]) -> int:
    """How often the key came before."""
    counts[key] = counts.get(key, 0) + 1
    return counts[key] - 1
