"""The code of this package that computes, as a digest that comments do not change."""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import botorch_tv
from botorch_tv.files import write_whole
from botorch_tv.identity.source import Named, digest, docstring_of

ROOT = Path(botorch_tv.__file__).parent
COMPUTING = (
    "acquisition",
    "experts",
    "forgetting",
    "inference",
    "kernels",
    "learning",
    "likelihoods",
    "simulation/captured.py",
    "simulation/chunks.py",
    "simulation/compiled.py",
    "simulation/eager.py",
    "simulation/recorders",
    "simulation/records.py",
    "simulation/rules.py",
    "simulation/streams.py",
    "simulation/worlds",
    "strategies",
    "test_functions",
)
"""The parts of this package that the numbers of a study or loop come from."""


@functools.cache
def library() -> str:
    """This package: its version, and a digest of the code that computes, without docstrings.

    Parsing all files takes .2 s and more, which every command of a shell would wait for. The digest
    is therefore kept in the user's cache folder, with a SHA-256 of the files' bytes: it is found
    there only if no byte has changed.
    """
    texts = {
        file.relative_to(ROOT).as_posix(): file.read_bytes()
        for name in COMPUTING
        for file in _files(ROOT / name)
    }
    rules = [Path(__file__).read_bytes(), (ROOT / "identity/source.py").read_bytes()]
    key = hashlib.sha256()
    for part in (*rules, *(part for one in texts.items() for part in (one[0].encode(), one[1]))):
        key.update(f"{len(part)} ".encode() + part)
    code = _kept(key.hexdigest())
    if code is None:
        code = digest([line for one in texts.items() for line in _code_lines(*one)])
        _keep(key.hexdigest(), code)
    return f"{botorch_tv.__version__}, code {code}"


# ---------------------------------------------------------------- the cache


def _cache() -> Path:
    """The file that keeps the digest of the newest code seen of this installation."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "botorch_tv"
    return folder / f"code-{digest([str(ROOT).encode()])}"


def _kept(key: str) -> str | None:
    """The digest that was computed for files of these bytes; None if none is kept."""
    with suppress(OSError, RuntimeError, UnicodeDecodeError):  # RuntimeError: there is no home
        found = re.fullmatch(r"([0-9a-f]{64}) ([0-9a-f]{16})\n", _cache().read_text("ascii"))
        return found[2] if found and found[1] == key else None
    return None


def _keep(key: str, code: str) -> None:
    """Write the digest for the next process; without a folder to write to, nothing is kept."""
    with suppress(OSError, RuntimeError):
        file = _cache()
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, lambda open_file: open_file.write(f"{key} {code}\n".encode()))


# ---------------------------------------------------------------- the digest


def _files(path: Path) -> list[Path]:
    return [path] if path.suffix else sorted(path.rglob("*.py"))


def _code_lines(name: str, content: bytes) -> Iterator[bytes]:
    """The name of a file, then its lines without docstrings, comments and blank lines."""
    text = content.decode()
    left_out: set[int] = set()
    for node in _named(ast.parse(text)):
        docstring = docstring_of(node)
        if docstring is not None:
            left_out.update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    yield name.encode()
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.rstrip()
        if bare and number not in left_out and not bare.lstrip().startswith("#"):
            yield b"\n" + bare.encode()


def _named(node: Named) -> Iterator[Named]:
    """A module or definition and all definitions within it; expressions are skipped."""
    yield node
    for one in node.body:
        if isinstance(one, Named):
            yield from _named(one)
