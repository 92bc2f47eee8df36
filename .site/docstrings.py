"""Docstrings as Markdown: roles become links, equations MathML, presets show all arguments."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe

from benchmarks.site import mathml, public

ROLE = re.compile(r":\w+:`(~?)([\w.]+)`")
EQUATION = re.compile(r"\.\. math::[ \n]+(.+)")
STAR = re.compile(r"(``.+?``|`.+?`)|(?<=\w)\*(?!\*)", re.DOTALL)
"""Code, or a star after a letter, which begins no emphasis."""
PRESETS = "strategies.presets"


class Docstrings(griffe.Extension):
    """Rewrites every docstring once the package is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings of a package.

        Args:
            pkg: The package.
        """
        if pkg.name == "botorch_tv":
            made = importlib.import_module(f"{pkg.name}.{PRESETS}")
            for name, preset in pkg[PRESETS].functions.items():
                if any(str(one.value).startswith("preset(") for one in preset.decorators):
                    function = getattr(made, name)
                    preset.docstring.value = inspect.getdoc(function)
                    given = inspect.signature(function).parameters.values()
                    preset.parameters = griffe.Parameters(*map(_shown, given))
            _rewrite(pkg, {place for places in public().values() for place in places.values()})


def _shown(parameter: inspect.Parameter) -> griffe.Parameter:
    kind = inspect.formatannotation(parameter.annotation)
    default = None if parameter.default is parameter.empty else repr(parameter.default)
    return griffe.Parameter(
        parameter.name,
        annotation=re.sub(r"\b[\w.]+\.(?=\w)", "", kind),
        kind=griffe.ParameterKind.keyword_only,
        default=default,
    )


def _rewrite(one: griffe.Object, places: set[str]) -> None:
    if one.docstring:

        def link(role: re.Match[str]) -> str:
            shown = role[2].rpartition(".")[2] if role[1] else role[2]
            found = _found(one, role[2])
            path = found.canonical_path if found and found.has_docstring else ""
            shows = path in places or path.rpartition(".")[0] in places
            return f"[`{shown}`][{path}]" if shows else f"`{shown}`"

        text = ROLE.sub(link, one.docstring.value)
        text = STAR.sub(lambda found: found[1] or r"\*", text)
        one.docstring.value = EQUATION.sub(lambda found: mathml(f"$${found[1]}$$"), text)
    for member in one.members.values():
        if not member.is_alias:
            _rewrite(member, places)


def _found(one: griffe.Object, name: str) -> griffe.Object | griffe.Alias | None:
    """The object that a role names, or None if it is not found."""
    try:
        path = name if name.startswith("botorch_tv.") else one.resolve(name)
        found = one.modules_collection[path]
        return found.final_target if found.is_alias else found
    except (KeyError, griffe.GriffeError):
        return None
