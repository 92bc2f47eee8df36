"""Folders stand in an order: no import goes up, and none runs in a circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import botorch_tv

ROOT = Path(botorch_tv.__file__).parent
FLOORS = (  # from the ground up
    "validation",
    "files",
    "memory",
    "even_points",
    "drawing",
    "test_functions",
    "forgetting",
    "kernels",
    "gp",
    "identity",
    "likelihoods",
    "learning",
    "models",
    "acquisition",
    "experts",
    "strategies",
    "loop",
    "simulation",
    "theory",
    "papers",
    "ax",
    "optuna",
    "cli",
    "__main__",
)
FLOOR = {name: number for number, name in enumerate(FLOORS)}


def modules():
    """The syntax tree of every module by its dotted name, folders' own ``__init__`` aside."""
    files = (f for f in ROOT.rglob("*.py") if f.name != "__init__.py")
    return {
        ".".join(("botorch_tv", *f.relative_to(ROOT).with_suffix("").parts)): ast.parse(
            f.read_text()
        )
        for f in files
    }


def imports(tree):
    """Names of a module's imports at load time or for types."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("botorch_tv"):
            yield from ((node.module, f"{node.module}.{alias.name}") for alias in node.names)


TREES = modules()
USES = {
    name: {second if second in TREES else first for first, second in imports(tree)} - {name}
    for name, tree in TREES.items()
}


def test_imports_go_down():
    upward = [
        f"{name} imports {used}"
        for name, all_used in USES.items()
        for used in all_used
        if used.count(".")
        and name.count(".")
        and (FLOOR[used.split(".")[1]], used.split(".")[1] != name.split(".")[1])
        > (FLOOR[name.split(".")[1]], False)
    ]
    assert not upward, "\n".join(upward)


def test_no_imports_run_in_a_circle():
    TopologicalSorter({name: used & set(TREES) for name, used in USES.items()}).prepare()
