"""A table of every public name, written from the docstrings and from nothing else.

    python -m tests.tools.api

writes ``botorch_tv/API.md``; a test compares them. A name has its line where its shortest import
is, and is only named elsewhere. Ax, Optuna and gest-api must be installed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import botorch_tv

PACKAGE = Path(botorch_tv.__file__).parent
PAGE = PACKAGE / "API.md"
OFFERED = re.compile(r"^__all__ = \[|^    __all__ = sorted\(", re.MULTILINE)
"""A list of names, or a list computed from the presets."""
WIDEST = 100
"""Characters that the first line of a docstring may have."""
HEAD = """\
# Every public name

Written by `python -m tests.tools.api` from the first lines of the docstrings; `help(name)` tells
the rest. Tags such as [B16] are those of [the algorithms](../.site/pages/reference/algorithms.md).
"""


def modules() -> list[ModuleType]:
    """Modules that say what they offer: the package first, then its parts by their names."""
    parts = pkgutil.walk_packages(botorch_tv.__path__, "botorch_tv.")
    paths = ["botorch_tv", *sorted(part.name for part in parts if _says_what_it_offers(part.name))]
    return [importlib.import_module(path) for path in paths]


def page() -> str:
    """The whole page.

    Raises:
        ValueError: If a docstring does not begin with one line.
    """
    offered = modules()
    contents = [(f"[`{one.__name__}`](#{_anchor(one.__name__)})", _line(one)) for one in offered]
    homes: dict[int, str] = {}
    sections = [HEAD, *_table("import from", contents), ""]
    for module in offered:
        values = {name: getattr(module, name) for name in module.__all__}
        known = {name: homes[id(one)] for name, one in values.items() if id(one) in homes}
        new = [name for name in values if name not in known]
        homes.update((id(values[name]), module.__name__) for name in new)
        sections.append(f"## {module.__name__}\n")
        if new:
            sections += _table("name", [_row(module, name) for name in new])
            sections.append("")
        for home in dict.fromkeys(known.values()):
            names = ", ".join(f"`{name}`" for name in known if known[name] == home)
            sections.append(f"Also, from `{home}`: {names}.\n")
    return "\n".join(sections).rstrip("\n") + "\n"


def _says_what_it_offers(path: str) -> bool:
    """Whether a module has an ``__all__``; it is not imported for that."""
    place = PACKAGE.joinpath(*path.split(".")[1:])
    source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return bool(OFFERED.search(source.read_text(encoding="utf-8")))


def _row(module: ModuleType, name: str) -> tuple[str, str]:
    """A name with a link to its source, and its description."""
    value = getattr(module, name)
    kind = inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value)
    home = inspect.getmodule(value) if kind else None
    if home is not None and home.__name__.startswith("botorch_tv"):
        source, line = Path(home.__file__ or ""), _line(value)
    else:
        source, line = _assigned(module, name)
    return f"[`{name}`]({source.relative_to(PACKAGE).as_posix()})", line


def _line(value: object) -> str:
    return _markdown(inspect.getdoc(value) or "", getattr(value, "__name__", repr(value)))


def _assigned(module: ModuleType, name: str) -> tuple[Path, str]:
    """Where a value is assigned that is no class or function, and the string below."""
    for source in sorted(Path(inspect.getfile(module)).parent.rglob("*.py")):
        body = ast.parse(source.read_text(encoding="utf-8")).body
        for one, below in pairwise(body):
            targets = one.targets if isinstance(one, ast.Assign) else []
            if not any(isinstance(to, ast.Name) and to.id == name for to in targets):
                continue
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return source, _markdown(str(below.value.value), name)
    raise ValueError(f"{name} of {module.__name__} has no string below that says what it is.")


def _markdown(docstring: str, name: str) -> str:
    """The first paragraph of a docstring, which must be one line."""
    text = docstring.partition("\n\n")[0]
    if not text or "\n" in text or len(text) > WIDEST:
        raise ValueError(
            f"{name} begins with {text!r}, but a docstring begins with one line of at most "
            f"{WIDEST} characters, and an empty one after it."
        )
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    return re.sub(r"([|*~])", r"\\\1", text)


def _table(head: str, rows: list[tuple[str, str]]) -> list[str]:
    return [f"| {head} | |", "|---|---|", *(f"| {name} | {line} |" for name, line in rows)]


def _anchor(title: str) -> str:
    """How a repository page links to a heading."""
    return title.replace(".", "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
