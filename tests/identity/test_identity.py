"""Descriptions differ for different values and code of users, and versions count."""

import functools
import importlib.util
import json
import linecache
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, PolynomialKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from helpers.child_study import study

from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger, KeepAll
from botorch_tv.identity import describe, differences, is_users, libraries
from botorch_tv.loop import Loop
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, gp_ucb


class Pair(NamedTuple):
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Slotted:
    a: float


class Thing:
    def __init__(self, a, hidden=0):
        self.a = a
        self._hidden = hidden

    @functools.cached_property
    def derived(self):
        return 2

    def method(self):
        return 1


class OtherThing(Thing):
    pass


class Opaque:
    __slots__ = ()


def holding(thing):
    kernel = RBFKernel()
    kernel.shape = thing
    return kernel


def tuned(**attributes):
    kernel = MaternKernel(**attributes).double()
    kernel.lengthscale = 0.3
    return kernel


def adding(number):
    return lambda other: number + other


UNLIKE = {
    "number": lambda: (0.1, 0.1 + 1e-17 + 2e-17),
    "None": lambda: (None, False),
    "flag": lambda: (True, False),
    "infinity": lambda: (math.inf, -math.inf),
    "dtype": lambda: (torch.float32, torch.float64),
    "text": lambda: ("a", "b"),
    "tensor": lambda: (torch.zeros(3), torch.tensor([0.0, 0.0, 1e-30])),
    "tensor dtype": lambda: (torch.zeros(3), torch.zeros(3).double()),
    "array": lambda: (np.arange(3), np.arange(3)[::-1]),
    "list": lambda: ([1, 2], [1, 2, 3]),
    "set": lambda: ({1, 2}, {1, 3}),
    "mapping": lambda: ({"a": 1}, {"a": 2}),
    "named tuple": lambda: (Pair(1, 2), Pair(1, 3)),
    "slots": lambda: (Slotted(1.0), Slotted(2.0)),
    "attribute": lambda: (Thing(1), Thing(2)),
    "class": lambda: (Thing(1), OtherThing(1)),
    "class itself": lambda: (Thing, OtherThing),
    "function": lambda: (math.sin, math.cos),
    "lambda": lambda: (Thing(lambda x: x + 1), Thing(lambda x: x + 2)),
    "closure": lambda: (adding(1), adding(2)),
    "partial": lambda: (functools.partial(int, base=2), functools.partial(int, base=3)),
    "method": lambda: (Thing(1).method, Thing(2).method),
    "lengthscale": lambda: (unit_kernel("se", 0.2), unit_kernel("se", 0.2 + 1e-15)),
    "smoothness": lambda: (tuned(nu=1.5), tuned(nu=2.5)),
    "active dimensions": lambda: (tuned(active_dims=[0]), tuned(active_dims=[1])),
    "attribute called type": lambda: ({"type": 1}, {"type": 2}),
    "keys that look alike": lambda: ({1: 2, "1": 3}, {1: 3, "1": 2}),
    "bytes": lambda: (b"a", b"b"),
    "cached function": lambda: (functools.lru_cache(adding(1)), functools.lru_cache(adding(2))),
    "tuple of a kernel": lambda: (holding((1, 2)), holding((1, 3))),
    "list of a kernel's part": lambda: (ScaleKernel(holding([1])), ScaleKernel(holding([2]))),
    "prior of a kernel": lambda: (
        RBFKernel(lengthscale_prior=GammaPrior(3.0, 6.0)),
        RBFKernel(lengthscale_prior=GammaPrior(3.0, 7.0)),
    ),
    "power": lambda: (PolynomialKernel(power=2), PolynomialKernel(power=3)),
    "grid": lambda: (Grid.regular(5, 2), Grid.regular(5, 2, bounds=[(0, 1), (0, 2)])),
    "width": lambda: (Logarithmic(c1=0.4), Logarithmic(c1=0.8)),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_descriptions_differ_exactly_for_different_values(name):
    (first, second), (same, _) = (
        [json.loads(json.dumps(describe(thing, "x"))) for thing in UNLIKE[name]()] for _ in range(2)
    )
    assert first == same != second
    assert differences(first, same, "x") == []
    assert all(line.startswith("x") for line in differences(first, second, "x"))


def test_private_and_derived_attributes_do_not_count():
    used = Thing(1)
    assert used.derived == 2
    used._count = 5
    assert describe(used, "x") == describe(Thing(1), "x")


def test_a_hidden_argument_of_the_constructor_counts():
    printed = differences(describe(Thing(1, hidden=5), "x"), describe(Thing(1), "x"), "x")
    assert printed == ["x._hidden is 5 there and 0 here"]


def test_use_does_not_change_a_kernel_or_a_grid():
    kernel, grid = unit_kernel("matern52", 0.2), Grid.regular(4, 2)
    before = describe([kernel, grid], "x")
    grid.basis(kernel, "features", dtype=torch.float64, device=torch.device("cpu"))
    kernel.eval()
    assert describe([kernel, grid], "x") == before


def test_objects_without_attributes_are_refused():
    with pytest.raises(ValueError, match=r"world\.a\.b is .*Opaque.* leading underscore"):
        describe(Thing({"b": Opaque()}), "world")


def test_a_closure_may_hold_an_object_without_attributes():
    described = [describe(adding(held), "x") for held in (Opaque(), Opaque(), Thing(Opaque()), 1)]
    assert described[0] == described[1] != described[2] != described[3]


NAMED = [
    (1, 2, ["a is 1 there and 2 here"]),
    (KeepAll(), EventTrigger(), ["a is KeepAll there and EventTrigger here"]),
    ([Thing(1), Thing(2)], [Thing(1), Thing(3)], ["a[1].a is 2 there and 3 here"]),
    ((100, 200), (50,), ["a is [100, 200] there and [50] here"]),
    (torch.zeros(3), torch.ones(3), ["a is float32 3, sha256"]),
    ({"a": 1, "b": 2}, {"b": 3, "c": 4}, ["a.a is 1 there and absent here", "a.b is", "a.c is"]),
    (Path("a"), None, ["a is 'a' there and None here"]),
]


@pytest.mark.parametrize(("there", "here", "printed"), NAMED)
def test_differences_are_named_by_their_path(there, here, printed):
    found = differences(describe(Thing(there), "x"), describe(Thing(here), "x"))
    assert len(found) == len(printed)
    for phrase, line in zip(printed, found):
        assert line.startswith(phrase)


SOURCE = '''
"""A user's own module."""

import functools
import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from gpytorch.kernels import RBFKernel

from helpers_of_a_user import deeper
import helpers_of_a_user as helpers

SCALE = 2.0
_HIDDEN = 3
TABLE = {"a": [1, 2]}
RULES = lambda x: x + 1


class Mixin:
    def mixed(self):
        return 1


def helper(x):
    """Doubles."""
    return SCALE * x + len(TABLE) + _HIDDEN  # or so


def recursive(n):
    return 0 if n == 0 else recursive(n - 1)


def decorated(function):
    @functools.wraps(function)
    def inner(*arguments):
        return 7 * function(*arguments)

    return inner


@lru_cache
def cached(x):
    return x - 1


class Own(Mixin, RBFKernel):
    shift = 0.5

    def forward(self, x1, x2, **settings):
        return helper(super().forward(x1, x2)) + recursive(3) + deeper(self.shift)

    @property
    def twice(self):
        return cached(2) + RULES(1) + helpers.far(1)

    @staticmethod
    def constant():
        return {"a", "b", "c"} == {"a"} or "b" in {"a", "b", "c"}

    @decorated
    def wrapped(self):
        return 3

    @torch.no_grad()
    def graphless(self):
        return 4


@dataclass(frozen=True)
class Rule:
    delta: float = 0.1

    def __call__(self, x):
        return math.sin(x) * self.delta


def made(factor):
    def inner(x):
        class Unit:
            """One."""

        return factor * x

    return inner
'''
HELPERS = "def deeper(x):\n    return x + 10\n\ndef far(x):\n    return x + 20\n"


@pytest.fixture
def user(tmp_path, monkeypatch):
    """From the text of two modules to the first of them, freshly imported."""
    monkeypatch.syspath_prepend(tmp_path)
    count = 0

    def imported(text=SOURCE, helpers=HELPERS):
        nonlocal count
        count += 1  # a separate folder, which preserves older versions
        modules = {}
        for name, content in (("helpers_of_a_user", helpers), ("code_of_a_user", text)):
            file = tmp_path / str(count) / f"{name}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
            spec = importlib.util.spec_from_file_location(name, file)
            modules[name] = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, modules[name])
            spec.loader.exec_module(modules[name])
        return modules["code_of_a_user"]

    return imported


def whole(module):
    """A description of all that the module has to offer."""
    made = [module.Own().double(), module.Rule(), module.made(2)]
    return json.loads(json.dumps(describe(made, "x")))


EDITS = {
    "method": ("recursive(3)", "recursive(4)", "forward"),
    "function": ("SCALE * x", "SCALE + x", "helper"),
    "constant": ("SCALE = 2.0", "SCALE = 2.5", "SCALE is 2.0 there and 2.5 here"),
    "hidden constant": ("_HIDDEN = 3", "_HIDDEN = 4", "_HIDDEN is 3 there and 4 here"),
    "table": ("[1, 2]", "[1, 3]", r"TABLE.a\[1\] is 2 there and 3 here"),
    "lambda": ("x: x + 1", "x: x + 2", "RULES.source is"),
    "mixin": ("        return 1\n", "        return 2\n", "Mixin.mixed"),
    "recursion": ("0 if n == 0", "1 if n == 0", "recursive"),
    "decorator": ("7 * function", "8 * function", "Own.wrapped"),
    "decorated": ("        return 3\n", "        return 5\n", "Own.wrapped"),
    "by a library": ("        return 4\n", "        return 5\n", "Own.graphless"),
    "cached": ("x - 1", "x - 2", "cached"),
    "attribute of the class": ("shift = 0.5", "shift = 0.6", "Own.shift is 0.5 there and 0.6"),
    "static method": ('"b" in', '"d" in', "Own.constant"),
    "callable": ("math.sin(x)", "math.cos(x)", "Rule.__call__"),
    "inner function": ("factor * x", "factor + x", r"x\[2\].source is"),
}


@pytest.mark.parametrize("name", EDITS)
def test_edited_code_is_listed_by_name(name, user):
    old, new, printed = EDITS[name]
    before = whole(user())
    assert SOURCE.count(old) == 1
    unlike = differences(before, whole(user(SOURCE.replace(old, new))), "x")
    assert len(unlike) == 1, unlike
    assert re.search(printed, unlike[0])


@pytest.mark.parametrize("function", ["deeper", "far"])
def test_helpers_in_other_modules_count(function, user):
    edited = HELPERS.replace("10" if function == "deeper" else "20", "30")
    (printed,) = differences(whole(user()), whole(user(helpers=edited)), "x")
    assert f".{function}.source is" in printed


def test_comments_and_layout_do_not_count(user):
    text = SOURCE.replace("# or so", "# exactly").replace('"""Doubles."""', '"""Something."""')
    text = text.replace('"""One."""', '"""Another."""')
    text = "\n\n\n" + text.replace("return SCALE * x +", "return (SCALE * x  +").replace(
        "_HIDDEN  # ex", "_HIDDEN)  # ex"
    )
    assert text != SOURCE
    assert whole(user()) == whole(user(text + "\n\ndef unused():\n    return 1\n"))


def test_a_file_edited_since_its_import_counts_as_compiled(user):
    module = user()
    before = whole(module)
    Path(module.__file__).write_text(SOURCE.replace("SCALE * x", "SCALE + x"))
    linecache.checkcache()
    assert whole(module) != whole(user(SOURCE.replace("SCALE * x", "SCALE + x")))
    assert all("helper" in difference for difference in differences(before, whole(module)))


def test_things_that_refer_to_themselves(user):
    module = user("class Node:\n    other = None\n\ndef use():\n    return Node, use\n")
    node = module.Node()
    node.itself, node.list = node, [node]
    module.Node.other = node
    printed = describe({"node": node, "use": module.use, "class": module.Node}, "x")
    assert json.loads(json.dumps(printed)) == printed


SCRIPT = '''
# A study of my own.
from gpytorch.kernels import RBFKernel

TRIALS = 10
POWER = 2


def bent(distance):
    """Bends."""
    return distance**POWER


class Mine(RBFKernel):
    def forward(self, x1, x2, **settings):
        return bent(super().forward(x1, x2))


made = Mine().double(), (lambda x: bent(x) + 1)
'''


def run(kind, text, folder):
    """What a script makes that is started as a file, on standard input, or as a cell."""
    scope = {"__name__": "__main__"}
    if kind == "notebook":
        shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
        shell.run_cell(text).raise_error()
        return shell.user_ns["made"]
    if kind == "script":
        (folder / "script.py").write_text(text)
        linecache.checkcache()
    name = {"script": str(folder / "script.py"), "stdin": "<stdin>", "-c": "<string>"}[kind]
    exec(compile(text, name, "exec"), scope)
    return scope["made"]


@pytest.mark.parametrize("kind", ["script", "stdin", "-c", "notebook"])
def test_scripts_standard_input_and_notebooks(kind, tmp_path):
    source = "compiled code" if kind in ("stdin", "-c") else "source"

    def found(text):
        return json.loads(json.dumps(describe(list(run(kind, text, tmp_path)), "x")))

    first = found(SCRIPT)
    same = SCRIPT.replace("TRIALS = 10", "# More of them.\n\nTRIALS = 500")
    assert differences(first, found(same), "x") == []
    (printed,) = differences(
        first, found(SCRIPT.replace("distance**POWER", "distance * POWER")), "x"
    )
    assert re.search(rf"x\[0\].\(code\).Mine.forward.bent.{source} is '\w+' there and", printed)
    (printed,) = differences(first, found(SCRIPT.replace("POWER = 2", "POWER = 3")), "x")
    assert "Mine.forward.bent.POWER is 2 there and 3 here" in printed
    (printed,) = differences(first, found(SCRIPT.replace("bent(x) + 1", "bent(x) + 2")), "x")
    assert f"x[1].{source} is" in printed


@pytest.mark.parametrize("started", [pytest.__file__, json.__file__, None])
def test_a_script_is_the_users_whatever_was_started(started, monkeypatch):
    """``python -m cProfile script.py`` runs it in a module that has the profiler's file."""
    main = ModuleType("__main__")
    main.__file__ = started
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert is_users("__main__")
    assert is_users(__name__)
    for module in ("torch.nn", "json", "gpytorch.kernels", "botorch_tv.files"):
        assert not is_users(module)


@pytest.mark.full
def test_another_process_of_other_threads_describes_alike(user, tmp_path):
    described = "describe([user.Own().double(), user.Rule(), user.made(2), set('abcdefgh')], 'x')"
    mine = eval(described, {"describe": describe, "user": user()})
    (tmp_path / "code_of_a_user.py").write_text(SOURCE)
    (tmp_path / "helpers_of_a_user.py").write_text(HELPERS)
    script = (
        "import json, torch, code_of_a_user as user\n"
        "from botorch_tv.identity import describe, libraries\n"
        f"torch.set_num_threads({torch.get_num_threads() % 2 + 1})\n"
        f"print(json.dumps([libraries(), {described}]))\n"
    )
    paths = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', os.getcwd())}"
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout) == [libraries(), mine]


def test_trials_of_different_versions_of_libraries_are_named(tmp_path, monkeypatch):
    assert study(tmp_path, trials=16).data.attrs["torch"] == torch.__version__
    old = libraries() | {"torch": f"{torch.__version__}.1"}
    with monkeypatch.context() as patch:
        patch.setattr("botorch_tv.simulation.executors.libraries", lambda: old)
        with pytest.warns(UserWarning, match="different versions: torch 2"):
            result = study(tmp_path, trials=24)
    assert sorted(result.data.attrs["torch"].split(", ")) == [torch.__version__, old["torch"]]


def test_a_study_and_a_loop_are_not_resumed_with_an_edited_kernel(user, tmp_path):
    def strategy(text=SOURCE):
        return gp_ucb(kernel=user(text).Own().double(), noise=0.02)

    edited = SOURCE.replace("SCALE * x", "x")
    folder, file = tmp_path / "study", tmp_path / "loop.json"
    study(folder, trials=2, strategies={"mine": strategy()})
    again = study(folder, trials=2, strategies={"mine": strategy()})
    assert again.data.attrs["trials_found"] == 2
    changed = r"kernel.\(code\).Own.forward.helper.source is '.*there and"
    with pytest.raises(ValueError, match=changed):
        study(folder, trials=2, strategies={"mine": strategy(edited)})
    loop = Loop(strategy(), Grid.regular(4, 2))
    loop.tell(1.0, suggestion=loop.ask())
    loop.save(file)
    Loop.load(file, strategy())
    with pytest.raises(ValueError, match=changed):
        Loop.load(file, strategy(edited))
