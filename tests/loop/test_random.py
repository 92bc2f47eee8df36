"""Random sequences of operations: what a loop chooses depends on its final rows alone."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BANK, NOISE, QUICK, kernel

from botorch_tv import Box, Choice, Integer, Loop, adaptive_gp_ucb, et_gp_ucb, sw_gp_ucb, tv_gp_ucb

NUMBERS = Box({"x": (0, 1), "n": Integer(1, 4)}, search=QUICK)
MIXED = Box({"x": (0, 1), "kind": Choice("a", "b", "c")})
GIVEN = {"kernel": kernel(), "noise": NOISE}
STRATEGIES = {
    "Markov": tv_gp_ucb(**GIVEN, epsilon=0.05),
    "window": sw_gp_ucb(**GIVEN, window=7),
    "trigger": et_gp_ucb(**GIVEN),
    "adaptive": adaptive_gp_ucb(bank=BANK),
}
PAUSE = 1e12
"""Longest pause, in typical times between measurements."""


class Player:
    """A loop to which random operations are applied; several per second of the loop's clock."""

    def __init__(self, strategy, domain, seed, folder=None, pause=PAUSE):
        self.loop = Loop(strategy, domain, pending=2, lost_after=3)
        self.random, self.now = np.random.default_rng(seed), 0.0
        self.folder, self.pause = folder, pause

    def value(self, point):
        place = self.loop.domain.parameters.place(point, torch.empty(0, dtype=torch.float64))
        return (
            math.sin(4 * place[0] + 0.01 * self.now) + place.sum().item() + self.random.normal() / 9
        )

    def point(self):
        box = self.loop.domain
        draw = torch.as_tensor(self.random.random((1, box.dim)))
        return box.parameters.named(box.from_unit(draw)[0])

    def some(self):
        """Values of some parameters."""
        point = self.point()
        name = self.random.choice(list(point))
        return {name: point[name]}

    def late(self):
        """A time that no other measurement has: now, or earlier."""
        return self.now - (self.random.random() < 0.3) * 5 * self.random.random()

    def number(self):
        return int(self.random.choice(self.loop.history.number.numpy()))

    def step(self):
        loop, random = self.loop, self.random
        self.now += 0.5 + random.random()
        newest = loop.history.time.tolist()[-1:] or [0.0]
        now = self.now = max(self.now, newest[0] + 0.01)
        kind = random.choice(
            ["ask", "many", "tell", "observe", "queue", "drop", "amend", "remove", "pause"],
            p=[0.25, 0.05, 0.28, 0.12, 0.06, 0.05, 0.09, 0.05, 0.05],
        )
        room, rows = len(loop._record.waiting) < loop.pending, len(loop.history.y)
        if kind == "ask" and room:
            loop.ask(now=now, fixed=self.some() if random.random() < 0.4 else None)
        elif kind == "many" and not loop._record.waiting:
            loop.ask(now=now, n=2)
        elif kind in ("ask", "many", "tell") and loop.open:
            suggestion = loop.open[random.integers(len(loop.open))]
            at = self.some() if random.random() < 0.3 else None
            ok = random.random() > 0.15
            y = self.value({**suggestion.point, **(at or {})})
            loop.tell(y, at=at, ok=ok, suggestion=suggestion, time=self.late())
        elif kind == "queue":
            loop.enqueue(self.point())
        elif kind == "drop" and loop.open:
            loop.discard(loop.open[-1])
        elif kind == "amend" and rows:
            change = [{"y": random.normal()}, {"ok": False}, {"y": 0.1, "time": self.late()}]
            number = self.number()
            failed = loop.history.y[loop.history.number == number].isnan()
            loop.amend(number, **change[0 if failed else random.integers(3)])
        elif kind == "remove" and rows:
            loop.remove(self.number())
        elif kind == "pause":
            self.now += self.pause ** random.random()
        else:
            point = self.point()
            loop.observe(point, self.value(point), time=self.late())
        if random.random() < 0.1 and self.folder is not None:
            loop.save(self.folder / "loop.json")
            self.loop = Loop.load(self.folder / "loop.json", loop.strategy, loop.domain)

    def play(self, steps):
        for _ in range(steps):
            self.step()
        return self.loop


def again(loop, strategy=None):
    """A fresh loop that is given the rows, open suggestions and queued points of another."""
    fresh, history = Loop(strategy or loop.strategy, loop.domain, pending=2), loop.history
    for point, y, time in zip(history.points, history.y.tolist(), history.times):
        fresh.observe(point, y, ok=y == y, time=time)
    for row in loop._record.waiting.values():
        point = loop.domain.parameters.named(loop.state.time.new_tensor(row.point))
        fresh.enqueue(point)
        fresh.ask(now=max(row.planned_for, float(fresh.state.time)))
    for point in loop._record.queue:
        fresh.enqueue(loop.domain.parameters.named(loop.state.time.new_tensor(point)))
    return fresh


def recommended(loop, now):
    try:
        best = loop.recommend(now=now)
    except InputDataError:  # every point is more likely to fail than to succeed
        return torch.full((loop.domain.dim,), -1.0, dtype=torch.float64)
    return loop.domain.parameters.place(best, torch.empty(0, dtype=torch.float64))


def difference(loop, other, now, n=3):
    """Largest difference of choices, recommendations and predictions, in the units of the cube."""
    X = torch.linspace(0, 1, 5, dtype=torch.float64).unsqueeze(-1).expand(-1, loop.domain.dim)
    found = []
    for item in (loop, other):
        item.pending = 9
        rows = [item.posterior(X, now=now).mean.flatten()] if len(loop.history.y) else []
        rows += [recommended(item, now)] if rows else []
        rows += [suggestion.X for suggestion in item.ask(now=now, n=n)]
        rows += [item.ask(now=now, fixed={"x": 0.25}).X]
        found.append(torch.cat(rows))
    return float((found[0] - found[1]).abs().max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["window", "adaptive"])
def test_a_fresh_loop_that_is_given_the_rows_makes_the_same_choices(name, tmp_path):
    player = Player(STRATEGIES[name], NUMBERS, 1, tmp_path)
    loop = player.play(14)
    assert difference(loop, again(loop), player.now + 1, n=1) <= 1e-9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(300))
def test_a_fresh_loop_makes_the_same_choices_in_every_case(seed, tmp_path):
    names, domains = ["Markov", "adaptive", "window", "adaptive"], [NUMBERS, MIXED]
    strategy, domain = STRATEGIES[names[seed % 4]], domains[seed // 4 % 2]
    player = Player(strategy, domain, seed, tmp_path)
    loop = player.play(30)
    assert difference(loop, again(loop), player.now + 1) <= 1e-9


@pytest.mark.filterwarnings("ignore")
def test_a_loop_that_is_saved_and_loaded_anywhere_goes_on_unchanged(tmp_path):
    texts = []
    for folder in (None, tmp_path):
        path = tmp_path / f"{folder is None}.json"
        Player(STRATEGIES["trigger"], NUMBERS, 7, folder).play(20).save(path)
        texts.append(path.read_text())
    assert texts[0] == texts[1]
