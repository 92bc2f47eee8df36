"""The mutation run: which faults it makes, and whether it sees that a test fails."""

import ast
import subprocess
import sys

import pytest

from benchmarks import mutation

SOURCE = '''"""Words stay."""
def take(x: int, fine: bool = False):
    """More words."""
    if x < 3 and not fine:
        raise ValueError(f"{x - 1} is small")
    return max(x, 2.0) * abs(-x)
'''
FAULTS = {
    *(("False", "(True)"), ("x < 3 and not fine", "(x < 3 or not fine)"), ("x < 3", "(x <= 3)")),
    *(("3", "(4)"), ("not fine", "(fine)"), ('raise ValueError(f"{x - 1} is small")', "pass")),
    *(("max(x, 2.0) * abs(-x)", "(max(x, 2.0) / abs(-x))"), ("2.0", "(3.0)"), ("-x", "(x)")),
}
RUN = """
import json, os, pathlib, sys
from benchmarks import mutation
mutation.ROOT = pathlib.Path(sys.argv[1])
os.chdir(mutation.ROOT)
answer = pathlib.Path("answer.json")
tests = mutation.forked(answer, mutation.run, ["tests/gp/test_a.py"], mutation.core())["tests"]
for number in range(2):
    fault = mutation.mutated("botorch_tv/gp/a.py", number)[0]
    names = mutation.concerned(fault, tests)
    found = mutation.forked(answer, mutation.run, names, [], fault)
    print(fault["before"], names, found["status"])
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(SOURCE)
    return tmp_path


def test_single_faults_of_a_file(root):
    count = len(list(mutation.places(ast.parse(SOURCE))))
    found = [mutation.mutated("a.py", number) for number in range(count)]
    assert {(row["before"], row["after"]) for row, _ in found} == FAULTS
    for row, text in found:
        assert text.decode().replace(row["after"], row["before"], 1).count(row["before"])
        compile(text, "a.py", "exec")


def test_a_draw_is_the_same_for_a_seed():
    first, again, other = (mutation.draw(20, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len({(row["path"], row["lines"][0]) for row in first}) == 20
    assert {row["path"] for row in first} <= set(mutation.core())


def test_a_fault_is_tried_against_the_tests_that_execute_it(tmp_path):
    for folder in ("botorch_tv/gp", "tests/gp"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "botorch_tv/__init__.py").touch()
    (tmp_path / "botorch_tv/gp/a.py").write_text("def a(x):\n    return x + 1 if x else x * 0\n")
    (tmp_path / "tests/gp/test_a.py").write_text(
        "import os, sys\nsys.path.insert(0, os.getcwd())\nfrom botorch_tv.gp.a import a\n"
        "def test_a():\n    assert a(0) == a(True) - 2 == 0\ndef test_b():\n    pass\n"
    )
    command = [sys.executable, "-c", RUN, str(tmp_path)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines == [
        "x + 1 if x else x * 0 ['tests/gp/test_a.py::test_a'] killed",
        "x + 1 ['tests/gp/test_a.py::test_a'] killed",
    ]
