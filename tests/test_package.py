"""What travels with the package, and the order of its folders."""

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from gpytorch.kernels import Kernel

import botorch_tv
from botorch_tv import acquisition, forgetting, kernels, loop, models, simulation, strategies
from botorch_tv.forgetting.base import Declaring
from botorch_tv.simulation import worlds

PACKAGE = Path(botorch_tv.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())


def test_licence_citation_and_changes_agree_with_the_project():
    declared = PROJECT["project"]
    assert declared["license"] == "MIT"
    assert (PACKAGE.parent / "LICENSE").read_text().startswith("MIT License\n")
    assert f"\nlicense: {declared['license']}\n" in (PACKAGE / "CITATION.cff").read_text()
    newest = re.search(r"^## ([\d.]+)", (PACKAGE / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest
    assert newest[1] == botorch_tv.__version__


def test_papers_to_cite_have_the_same_addresses_everywhere():
    urls = {name.split()[1].rstrip(":"): url for name, url in PROJECT["project"]["urls"].items()}
    readme = (PACKAGE.parent / "README.md").read_text()
    for tag in ("B16", "C17", "ET", "M", "W22"):
        (line,) = re.findall(rf"^- \[{tag}\].*?(?=^[-\n])", readme, re.DOTALL | re.MULTILINE)
        (address,) = re.findall(r"\((https://arxiv\.org/abs/[\d.]+)\)", line)
        assert urls[tag] == address
    cited = (PACKAGE / "CITATION.cff").read_text()
    assert set(re.findall(r"url: (\S+)", cited)) == set(urls.values())


def dotted(file):
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def test_references_of_docstrings_exist():
    texts = {dotted(f).removesuffix(".__init__"): f.read_text() for f in PACKAGE.rglob("*.py")}
    for module, text in texts.items():
        for name in re.findall(r":\w+:`~?(botorch_tv\.[\w.]+)", text):
            home = name
            while home not in texts:
                home = home.rpartition(".")[0]
            words = set(name.removeprefix(home).split("."))
            here = {"", *re.findall(r"\w+", texts[home]), *botorch_tv.preset_names()}
            assert words <= here, (module, name)


def test_they_are_installed_with_it():
    shipped = PROJECT["tool"]["setuptools"]["package-data"]["botorch_tv"]
    assert all((PACKAGE / name).is_file() for name in shipped)
    assert {"py.typed", *(file.name for file in PACKAGE.glob("*.md"))} <= set(shipped)


def test_common_names_are_importable():
    presets = {name for name in strategies.__all__ if inspect.isfunction(getattr(strategies, name))}
    others = {"Strategy", "GPStrategy", "Grid", "Box", "Loop", "TimeVaryingGP", "run_study"}
    others |= {"Choice", "Context", "Float", "Integer"}
    assert set(botorch_tv.__all__) == presets | others
    typed = re.findall(r" import (\w+) as \1$", (PACKAGE / "__init__.py").read_text(), re.MULTILINE)
    assert set(typed) == others  # what type checkers see
    assert set(botorch_tv.__all__) <= set(dir(botorch_tv))
    for name in botorch_tv.__all__:
        homes = [item for item in (strategies, loop, models, simulation) if hasattr(item, name)]
        assert all(getattr(botorch_tv, name) is getattr(home, name) for home in homes)
        assert homes
    with pytest.raises(AttributeError, match="botorch_tv has no 'gp_ubc'"):
        _ = botorch_tv.gp_ubc


def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, botorch_tv; dir(botorch_tv); hasattr(botorch_tv, 'torch')\n"
        "assert not {'torch', 'gpytorch', 'numpy'} & set(sys.modules)\n"
        "import botorch_tv.theory\n"
        "assert not {'matplotlib', 'xarray', 'botorch_tv.strategies'} & set(sys.modules)\n"
        "from botorch_tv import Grid\n"
        "assert 'botorch_tv.strategies' in sys.modules\n"
        "assert not {'botorch_tv.simulation', 'botorch.models', 'scipy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=PACKAGE.parent)


FLOORS = (  # from the ground up
    *(
        "validation",
        "hints",
        "files",
        "memory",
        "notebook",
        "even_points",
        "drawing",
        "test_functions",
        "forgetting",
    ),
    *("kernels", "gp", "identity", "likelihoods", "learning", "models", "acquisition"),
    *("strategies", "experts", "loop", "simulation", "theory", "papers", "ax", "gest", "optuna"),
    *("cli", "__main__"),
)


def imports(tree):
    """Names that a module imports: when it loads, later, for types, or from a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and node.value in MODULES:
            yield node.value


def run(name, module):
    """The modules that run if ``module`` imports a name: the name's module and its packages.

    The packages of ``module`` run already, so they count only if a name is imported from them.
    """
    used = name if name in MODULES else name.rpartition(".")[0]
    packages = {above for above in MODULES if used.startswith(f"{above}.")}
    return {used} | {above for above in packages if not module.startswith(f"{above}.")}


# The package's own __init__ imports nothing when it loads, which another test shows.
FILES = [file for file in PACKAGE.rglob("*.py") if file != PACKAGE / "__init__.py"]
MODULES = {dotted(file).removesuffix(".__init__"): file for file in FILES}


@cache
def uses():
    """The modules that run if a module is imported, by module."""
    trees = {module: ast.parse(file.read_text()) for module, file in MODULES.items()}
    return {
        module: {used for name in imports(tree) for used in run(name, module)}
        & trees.keys() - {module}
        for module, tree in trees.items()
    }


def test_imports_go_down():
    for name, all_used in uses().items():
        own = name.split(".")[1]
        below = FLOORS[: FLOORS.index(own)]
        for used in all_used:
            assert used.split(".")[1] in (*below, own), f"{name} imports {used}"


def test_no_imports_run_in_a_circle():
    TopologicalSorter(uses()).prepare()


ABSTRACT = {"Decay", "Exploration", "GridWorld", "Inflation", "InformationGain", "Retention"}
ABSTRACT |= {"Width", "World"}
OWN_KERNELS = {("kernels.spatio_temporal", "MarkovKernel"): "a subclass may have another spectrum"}
OWN_KERNELS |= {("models.time_varying_gp", "SpatioTemporalKernel"): "its spatial factor is needed"}


PARTS = (forgetting, acquisition, kernels, worlds)


def parts():
    """Classes of the package whose objects are parts of a strategy or a study, with their homes."""
    pairs = {name: module for module in PARTS for name in module.__all__}
    kinds = {name: getattr(module, name) for name, module in pairs.items()}
    wanted = {name: kind for name, kind in kinds.items() if inspect.isclass(kind)}
    bases = (Declaring, Kernel)
    return {name: kind for name, kind in wanted.items() if issubclass(kind, bases)}


def class_tests(tree):
    """Names of classes that a module compares with ``type(x)``, and passes to ``isinstance``."""
    for node in ast.walk(tree):
        tested = []
        if isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            tested = node.comparators
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            tested = node.args[1:]
        for item in tested:
            yield from (each.id for each in ast.walk(item) if isinstance(each, ast.Name))


def test_no_module_asks_for_the_class_of_a_part():
    found = set()
    for module, file in MODULES.items():
        for name in class_tests(ast.parse(file.read_text())):
            kind = parts().get(name)
            if kind is not None and name not in ABSTRACT and kind.__module__ != module:
                found.add((module.removeprefix("botorch_tv."), name))
    assert found == set(OWN_KERNELS)
    examples = "type(a) is Markov; isinstance(b, (Markov, Fixed)); type(c) in (KeepAll,)"
    assert list(class_tests(ast.parse(examples))) == ["Markov", "Markov", "Fixed", "KeepAll"]
