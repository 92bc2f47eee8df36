"""Saved and loaded, a loop goes on as if never stopped."""

import json
import re
from dataclasses import replace

import pytest
import torch
from loop.loops import BOX, CASES, GRID, NOISE, STRATEGIES, kernel, made, measured

from botorch_tv.forgetting import Static
from botorch_tv.loop import Loop
from botorch_tv.loop.file import domain_data, domain_from
from botorch_tv.strategies import Box, DiscreteSearch, Grid, MultiStart, sparq_gp_ucb


def work(loop, start, stop):
    """Rounds with two open suggestions, late and failed answers, and observations."""
    record = []
    for t in range(start, stop):
        while len(loop.open) < loop.pending:
            suggestion = loop.ask()
            record.append((suggestion.number, suggestion.point, suggestion.time))
            record.append((suggestion.mean, suggestion.sd))
        chosen = loop.open[t % 2]
        if t == 7:
            loop.tell(ok=False, suggestion=chosen)
        else:
            y = measured(chosen.point, t)
            loop.tell(y, suggestion=chosen, time=chosen.time + 0.25, noise=0.02 if t == 3 else None)
        if t % 5 == 4:
            loop.observe(GRID.X[t], 0.1 * t, time=t - 3.3)
    return record


@pytest.mark.few(3)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_restored_loop_continues_like_the_uninterrupted(case, tmp_path):
    whole, parts = made(case, pending=2, seed=3), made(case, pending=2, seed=3)
    expected, actual = work(whole, 0, 14), []
    for start, stop in ((0, 1), (1, 9), (9, 14)):
        parts.save(tmp_path / "loop.json")
        parts = Loop.load(tmp_path / "loop.json", STRATEGIES[case[0]]())
        actual += work(parts, start, stop)
    assert actual == expected
    assert repr(parts.history) == repr(whole.history)
    for loop, name in ((whole, "whole"), (parts, "parts")):
        loop.save(tmp_path / name)
    assert (tmp_path / "whole").read_text() == (tmp_path / "parts").read_text()


def test_files_written_before_are_read(tmp_path):
    """The rows of a file are data that people keep: their names and meaning stay."""
    planned = {"arm": None, "planned_for": 1.5, "known": 0}
    planned |= {"predicted": [0.25, 0.5, 1.5]}
    asked = {"time": 1.75, "known": 1, "arms": None}
    rows = {
        "answers": [
            {"y": 0.5, "time": 1.75, "noise": 0.02, "arrival": 0, "number": 1, "point": [0.5, 0.25]}
            | planned
        ],
        "open": [planned | {"number": 2, "point": [0.125, 0.75]}],
        "replies": [asked | {"y": [None, 0.75], "number": 1, "points": [[0.5, 0.25], [0.5, 0.5]]}],
        "consultations": [asked | {"number": 2, "points": [[0.25, 0.25]]}],
    }
    file, strategy = tmp_path / "loop.json", sparq_gp_ucb(kernel=kernel(), noise=NOISE)
    Loop(strategy, BOX, pending=2).save(file)
    content = json.loads(unchecked(file.read_text())) | rows | {"asked": 2, "consulted": 2}
    del content["queue"], content["lost_after"]  # files of the first version have neither
    file.write_text(json.dumps(content))
    loop = Loop.load(file, strategy)
    history = loop.history
    assert (history.X.tolist(), history.y.tolist()) == ([[0.5, 0.25]], [0.5])
    assert (history.time.tolist(), history.noise.tolist()) == ([1.75], [0.02])
    want = "Suggestion 2: [0.125, 0.75] at time 1.5; posterior mean 0.25 ± 1 (2 sd)"
    assert repr(loop.open[0]) == want
    expert = loop.state.expert
    assert (expert.choice.tolist(), expert.time.tolist()) == ([[0.5, 0.25], [0.5, 0.5]], 1.75)
    assert (expert.noise.isinf().tolist(), float(expert.y[1])) == ([True, False], 0.75)
    assert "open consultations: 2" in repr(loop)
    loop.save(file)
    text = file.read_text()
    assert {name: json.loads(text)[name] for name in rows} == rows


thirds = torch.tensor([0.1, 1 / 3, 2 / 3], dtype=torch.float64)
DOMAINS = {
    "regular": Grid.regular(7, 3, bounds=[(0, 1), (-1 / 3, 2), (5, 5.1)]),
    "line": Grid(thirds.view(-1, 1)),
    "scattered": Grid(torch.stack([thirds, thirds.flip(0)], -1)),
    "single precision": Grid(torch.rand(4, 2, generator=torch.Generator().manual_seed(0))),
    "box": Box(torch.tensor([[0.1, -1 / 3], [0.3, 7.0]], dtype=torch.float64), context_dim=2),
    "searched": BOX,
    "candidates": Box(BOX.bounds, search=DiscreteSearch(torch.stack([thirds, -thirds], -1))),
}


@pytest.mark.parametrize("name", DOMAINS)
def test_domains_come_back_bit_for_bit(name):
    domain = DOMAINS[name]
    data = json.loads(json.dumps(domain_data(domain)))
    again = domain_from(data, torch.device("cpu"))
    assert repr(again) == repr(domain)
    if isinstance(domain, Grid):
        assert isinstance(again, Grid)
        assert torch.equal(again.X, domain.X)
        assert again.X.dtype == domain.X.dtype
        assert ("axes" in data) == (name in ("regular", "line"))
    else:
        assert isinstance(domain, Box)
        assert isinstance(again, Box)
        assert torch.equal(again.bounds, domain.bounds)
        assert repr(again.search) == repr(domain.search)
    assert json.loads(json.dumps(domain_data(again))) == data


class Thorough(MultiStart):
    """A search that the package does not know."""


def test_a_user_defined_search_must_be_passed_again(tmp_path):
    file, domain = tmp_path / "loop.json", Box(BOX.bounds, search=Thorough(8, 1, 3))
    loop = Loop(STRATEGIES["static"](), domain)
    loop.tell(measured(loop.ask().point, 0))
    loop.save(file)
    with pytest.raises(ValueError, match="the file only describes the domain; pass domain="):
        Loop.load(file, loop.strategy)
    assert Loop.load(file, loop.strategy, domain).ask().point == loop.ask().point
    with pytest.raises(ValueError, match=r"domain.search is Thorough there and MultiStart here"):
        Loop.load(file, loop.strategy, BOX)


@pytest.fixture
def saved(tmp_path):
    loop = made(("Markov", "grid"))
    for t in range(3):
        loop.tell(measured(loop.ask().point, t))
    loop.save(tmp_path / "loop.json")
    return tmp_path / "loop.json"


def other(**changes):
    return lambda file: Loop.load(file, replace(STRATEGIES["Markov"](), **changes))


def elsewhere(domain):
    return lambda file: Loop.load(file, STRATEGIES["Markov"](), domain)


def edited(old, new):
    def load(file):
        text = unchecked(file.read_text())
        assert old in text
        file.write_text(text.replace(old, new))
        Loop.load(file, STRATEGIES["Markov"]())

    return load


REFUSED = {
    "noise": (other(noise=0.02), "strategy.noise is 0.01 there and 0.02 here"),
    "kernel": (other(kernel=kernel(0.4)), "lengthscale=0.3.* there .*=0.4.* here"),
    "matrix": (other(kernel=torch.eye(36)), "strategy.kernel is RBFKernel there"),
    "decay": (other(decay=Static()), "strategy.decay is Markov there and Static here"),
    "sense": (other(maximize=False), "strategy.maximize is True there and False"),
    "box": (elsewhere(BOX), "another domain: .*domain is Grid there and Box here"),
    "axes": (elsewhere(Grid.regular(7, 2)), "another domain: .*domain.axes"),
    "arms": (elsewhere(Grid(GRID.X.flip(0))), "another domain: .*domain.(axes|arms)"),
    "kind": (edited("botorch_tv loop", "study"), "file of a loop .*its format is 'study'"),
    "version": (
        edited('"version": 3', '"version": 2'),
        "has format 2, .* reads format 3; load it with botorch_tv",
    ),
    "column": (edited('"arrival"', '"arrived"'), "KeyError: 'arrival'"),
    "rows": (edited('"rows": [0.0', '"rows": ["a"'), "damaged .*TypeError|ValueError"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_strategy_domain_or_file_is_refused_by_name(name, saved):
    load, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        load(saved)


def test_an_equal_domain_is_accepted(saved):
    elsewhere(Grid.regular(6, 2))(saved)


def unchecked(text):
    """The file without its digests."""
    found, count = re.subn(r',\n  "digests": [^\n]*', "", text)
    assert count == 1
    return found


def test_no_changed_digit_goes_unnoticed(saved):
    text = saved.read_text()
    saved.write_text(unchecked(text))
    Loop.load(saved, STRATEGIES["Markov"]())  # changed on purpose
    place = text.index('"y": ') + 7
    changed = text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
    saved.write_text(changed)
    with pytest.warns(UserWarning, match=r"loop.json was changed by hand .*: measurement 1 was"):
        Loop.load(saved, STRATEGIES["Markov"]())


def test_other_libraries_are_named(saved):
    text = unchecked(saved.read_text())
    saved.write_text(re.sub(r'"torch": "[^"]*"', '"torch": "1.0"', text))
    with pytest.warns(UserWarning, match="libraries: torch is '1.0' there and '2.* here"):
        Loop.load(saved, STRATEGIES["Markov"]())


def test_a_link_stays_a_link(saved):
    link = saved.with_name("link.json")
    link.symlink_to(saved)
    loop = Loop.load(link, STRATEGIES["Markov"]())
    loop.ask()
    loop.save(link)
    assert link.is_symlink()
    assert len(Loop.load(saved, loop.strategy).open) == 1


def test_a_file_written_by_another_process_is_not_overwritten(tmp_path):
    file = tmp_path / "loop.json"
    first = Loop([(0.0, 1.0)])
    first.save(file)
    other = Loop.load(file)
    other.observe([0.5], 1.0)
    other.save(file)
    first.observe([0.25], 2.0)
    with pytest.raises(ValueError, match="has been written since this loop last loaded"):
        first.save(file)
    assert Loop.load(file).history.y.tolist() == [1.0]
    first.save(tmp_path / "another.json")
    other.observe([0.75], 3.0)
    other.save(file)  # its own file, saved twice
    assert Loop.load(file).history.y.tolist() == [1.0, 3.0]
