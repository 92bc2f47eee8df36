"""The mutation run: which faults it makes, that they are put in, and what it says of tests."""

import ast

import pytest

from benchmarks.mutation import children, draw, judge, results
from benchmarks.mutation.__main__ import ROOT
from benchmarks.mutation.judge import Ran
from benchmarks.mutation.mutants import mutants_of, mutated
from benchmarks.mutation.usual import FOLDERS, Usual

SOURCE = '''
"""Words are left alone."""

LIMIT = 3


class Scale:
    """A class."""

    def take(self, x: float, fine: bool = False) -> tuple[float, int]:
        """More words."""
        x = max(x, 1)
        if x < LIMIT and not fine:
            raise ValueError(f"{x - 1} is small")
        return x * 2.0, self.count

    def pair(self):
        return self, self
'''
EXPECTED = {
    ("", "LIMIT = 3", "LIMIT = 4"),
    ("", "LIMIT = 3", "LIMIT = 2"),
    ("Scale.take", "x = max(x, 1)", "x = min(x, 1)"),
    ("Scale.take", "x = max(x, 1)", "x = max(x, 0)"),
    ("Scale.take", "x = max(x, 1)", "x = max(x, 2)"),
    ("Scale.take", "x = max(x, 1)", "pass"),
    ("Scale.take", "if x < LIMIT and (not fine):", "if x <= LIMIT and (not fine):"),
    ("Scale.take", "if x < LIMIT and (not fine):", "if x >= LIMIT and (not fine):"),
    ("Scale.take", "if x < LIMIT and (not fine):", "if x < LIMIT or not fine:"),
    ("Scale.take", "if x < LIMIT and (not fine):", "if x < LIMIT and fine:"),
    ("Scale.take", "raise ValueError(f'{x - 1} is small')", "pass"),
    ("Scale.take", "return (x * 2.0, self.count)", "return (x / 2.0, self.count)"),
    ("Scale.take", "return (x * 2.0, self.count)", "return (x * 3.0, self.count)"),
    ("Scale.take", "return (x * 2.0, self.count)", "return (x * -2.0, self.count)"),
    ("Scale.take", "return (x * 2.0, self.count)", "return (self.count, x * 2.0)"),
}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "scale.py").write_text(SOURCE)
    return tmp_path


def test_single_faults_of_a_file(root):
    found = mutants_of(root, "scale.py")
    told = {(one.function, one.before, one.after) for one in found}
    default = {one for one in told if "fine: bool=True" in one[2]}
    assert told - default == EXPECTED
    assert len(default) == 1
    assert next(iter(default))[0] == ""  # a default belongs to the class, not to the call


@pytest.mark.parametrize("name", ["gp/linalg.py", "forgetting/relevance.py"])
def test_every_fault_is_one_change_that_compiles(name):
    path = f"botorch_tv/{name}"
    whole = ast.unparse(ast.parse((ROOT / path).read_text()))
    for one in mutants_of(ROOT, path)[::4]:
        tree = mutated(ROOT, one)
        compile(tree, one.path, "exec")
        assert ast.unparse(tree) != whole
        assert one.before != one.after


def test_a_draw_is_the_same_for_a_seed_and_longer_ones_hold_shorter_ones_of_a_file():
    within = ["botorch_tv/forgetting/retention.py"]
    short, long, other = (
        {one.key for one in draw.draw(ROOT, count, seed, within)}
        for count, seed in ((5, 0), (20, 0), (20, 1))
    )
    assert (len(short), len(long)) == (5, 20)
    assert short < long
    assert long != other


def test_files_have_faults_by_their_lines():
    within = ["botorch_tv/forgetting/", "botorch_tv/kernels/"]
    drawn = [one.path for one in draw.draw(ROOT, 60, 0, within)]
    assert len(drawn) == 60
    names = [name for name in draw.core(ROOT) if name.startswith(tuple(within))]
    lines = {name: len((ROOT / name).read_text().splitlines()) for name in names}
    for name, size in lines.items():
        assert abs(drawn.count(name) - 60 * size / sum(lines.values())) <= 1


def test_the_core_is_what_computes():
    names = draw.core(ROOT)
    assert {"botorch_tv/gp/arms.py", "botorch_tv/simulation/streams.py"} <= set(names)
    assert not any("botorch_tv/loop/" in name or "__init__" in name for name in names)


def test_folders_of_tests_are_there():
    """One that was moved would be left out, and say so to nobody."""
    assert [name for name in FOLDERS if not (ROOT / "tests" / name).is_dir()] == []


def test_a_fault_is_put_into_a_living_class(root):
    path = str(root / "scale.py")
    space = {}
    exec(compile(SOURCE, path, "exec"), space)
    scale = space["Scale"]()
    scale.count = 5
    retained = scale.take
    functions = judge.living([path])[path]
    assert retained(4.0) == (8.0, 5)
    wanted = next(one for one in mutants_of(root, "scale.py") if "(self.count, x" in one.after)
    assert judge.put_in(compile(mutated(root, wanted), path, "exec"), functions) == 1
    assert retained(4.0) == (5, 8.0)
    limit = next(one for one in mutants_of(root, "scale.py") if one.after == "LIMIT = 4")
    assert judge.put_in(compile(mutated(root, limit), path, "exec"), []) == 0


def test_a_fault_that_a_living_closure_cannot_take_is_not_put_in(tmp_path):
    source = "def made(x):\n    def inner():\n        print(x)\n    return inner\n"
    path = str(tmp_path / "made.py")
    (tmp_path / "made.py").write_text(source)
    space = {}
    exec(compile(source, path, "exec"), space)
    living = [space["made"], space["made"](3)]
    (dropped,) = (one for one in mutants_of(tmp_path, "made.py") if one.after == "pass")
    assert judge.put_in(compile(mutated(tmp_path, dropped), path, "exec"), living) == 0


def test_children_answer_die_or_are_stopped():
    def work(task, scratch):
        scratch.joinpath("file").write_text("kept to itself")
        if task == "raise":
            raise ValueError("why")
        if task == "die":
            judge.os.kill(judge.os.getpid(), judge.signal.SIGKILL)
        while task == "hang":
            judge.threading.Event().wait(1)
        return task

    tasks = ["one", "raise", "die", "hang", "two"]
    answers = dict(children.each(tasks, work, workers=2, seconds=1.0))
    assert answers == {
        "one": "one",
        "raise": {"error": "ValueError: why"},
        "die": "SIGKILL",
        "hang": "timed out",
        "two": "two",
    }


def test_which_tests_concern_a_fault(tmp_path, root):
    (fault,) = (one for one in mutants_of(root, "scale.py") if one.after == "x = min(x, 1)")
    usual = Usual(tmp_path / "usual.jsonl", root)
    here, there = {"scale.py": [fault.lines[0]]}, {"scale.py": [fault.lines[0] + 1]}
    usual.tests["tests/a/test_other.py"] = [
        Ran("other[slow]", True, 5.0, here),
        Ran("other[quick]", True, 1.0, here),
        Ran("elsewhere", True, 0.1, there),
        Ran("broken", False, 0.1, here),
    ]
    usual.tests["tests/a/test_scale.py"] = [Ran("own", True, 4.0, here)]
    object.__setattr__(fault, "path", "a/scale.py")
    for tests in usual.tests.values():
        for one in tests:
            one.lines = {"a/scale.py": one.lines["scale.py"]}
    assert usual.concerned(fault, 100.0) == (["own", "other[quick]", "other[slow]"], 3)
    assert usual.concerned(fault, 5.0) == (["own", "other[quick]"], 3)
    entered = ["elsewhere", "own", "other[quick]", "other[slow]"]
    assert usual.concerned(fault, 100.0, whole_file=True) == (entered, 4)


def test_the_report_counts_what_changes_anything(tmp_path, root):
    faults = mutants_of(root, "scale.py")[:4]
    retained = results.Results(tmp_path / "faults.jsonl")
    for fault, status in zip(faults, ("killed", "survived", "timed out", "survived")):
        retained.add(fault, {"status": status, "ran": 2, "of": 3})
    retained = results.Results(retained.path)
    text, share = results.report(faults, retained, {faults[3].key: "why"})
    assert share == pytest.approx(2 / 3)
    assert "4 faults: equivalent 1, killed 1, survived 1, timed out 1; seen 2 of 3, 66.7%" in text
    assert f"  - {faults[1].before}\n  + {faults[1].after}" in text
    assert faults[3].after not in text.split("\n")[-2]
    found = results.counted(faults, retained, {faults[3].key: "why"})
    assert (found["seen"], found["of"], found["share"]) == (2, 3, share)
    assert [one["after"] for one in found["unseen"]] == [faults[1].after]
    assert retained.done(faults[1], again=False)
    assert not retained.done(faults[1], again=True)
    assert not retained.done(mutants_of(root, "scale.py")[5], again=False)


def test_equivalents_are_named_with_a_reason():
    """An entry whose line was edited since fits no fault and does nothing."""
    for (path, _, before, after), reason in results.equivalents().items():
        assert (ROOT / path).exists()
        assert before != after
        assert len(reason) > 10


def test_what_changes_nothing_is_a_fault_of_the_code_as_it_is():
    """An entry whose line has moved or changed would excuse nothing, and say so to nobody."""
    known = set(results.equivalents())
    files = {path for path, *_ in known}
    faults = {one.key for path in files for one in mutants_of(ROOT, path)}
    assert known <= faults, known - faults
