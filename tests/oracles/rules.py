"""The retained rows under one or several rules: the textbook of retention.

Rules are plain tuples. Before every choice, and after every observation, each rule is evaluated
for each retained row.

* ``("all",)``;
* ``("period", N, by)`` and ``("window", W, by)``, ``by`` either ``"rounds"`` or ``"time"``;
* ``("trigger", delta)``: a reset by an observation outside the band; the newest stays;
* ``("sessions", pause)``: a longer pause forgets everything, and is a reset;
* ``("agreeing", reach)``: drops rows whose y differs by more than this from the newest;
* ``("near best", reach)``: drops rows further than this below the best;
* ``("cusum", slack, limit)``: a reset once the standardised residuals beyond the slack sum up to
  more than the limit; the newest stays;
* ``("confirmed", delta, c)``: a trigger that fires at the last of c + 1 contradictions in a row,
  which stay; until then they are set aside, and dropped if an observation agrees; failures do not
  count;
* ``("glr", delta, longest)``: a reset once the squared sum of the w newest standardised errors,
  halved and divided by w, exceeds ln(L pi^2 t'^2 / (6 delta)) for one of L = min(t', longest) w;
  the newest stays;
* ``("replaced",)``: a newer reading takes the place of older ones at the same arm;
* ``("thinned", newest)``: of older rows every third stays, counted from the newest and the round;
* ``("restart", N)``: every N rounds a reset that forgets nothing;
* ``("surprise", limit)``: an observation so far from its mean drops all other rows; no reset;
* ``("panic", limit)``: it drops all rows, and is a reset;
* ``("blank", N)``: every N rounds all rows are dropped; no reset.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Memory = float | tuple[float, ...]


class Row(NamedTuple):
    """A round; its noise is infinite if the measurement failed."""

    index: int
    time: float
    y: float
    noise: float

    @property
    def usable(self) -> bool:
        return math.isfinite(self.noise)


class Seen(NamedTuple):
    """An observation and its prediction."""

    y: float
    mean: float
    sd: float
    noise: float


class Question(NamedTuple):
    """The input of a rule: all rows, and the numbers of the retained rows."""

    rows: Sequence[Row]
    rest: Sequence[int]
    now: float
    since: int
    newest: Seen | None
    memory: Memory

    @property
    def usable(self) -> list[Row]:
        return [self.rows[item] for item in self.rest if self.rows[item].usable]


Answer = tuple[Callable[[int], bool], bool]
"""Whether the row of a number stays, and whether this is a reset."""


def everything(number: int) -> bool:
    return True


def nothing(number: int) -> bool:
    return False


def answered(rule: tuple, asked: Question) -> Answer:
    """The answer of a rule."""
    kind, rows, rounds = rule[0], asked.rows, len(asked.rows)
    before_choice = asked.newest is None
    if kind == "all":
        return everything, False
    if kind == "period" and rule[2] == "rounds":
        # Round s begins with an empty memory when (s - 1) mod N = 0.
        begins = before_choice and rounds % int(rule[1]) == 0
        return (nothing if begins else everything), begins
    if kind == "period":

        def block(time: float) -> int:
            return math.floor((time - rows[0].time) / rule[1])

        present = block(asked.now)
        ended = before_choice and block(rows[-1].time) != present
        return (lambda item: block(rows[item].time) == present), ended
    if kind == "window" and rule[2] == "rounds":
        return (lambda item: item >= rounds - int(rule[1])), False
    if kind == "window":
        return (lambda item: asked.now - rows[item].time <= rule[1]), False
    if kind == "sessions":
        fresh = asked.now - rows[-1].time > rule[1]
        return (nothing if fresh else everything), fresh
    if kind == "near best":
        best = max((row.y for row in asked.usable), default=math.nan)
        if math.isnan(best):
            return everything, False
        return (lambda item: rows[item].usable and rows[item].y >= best - rule[1]), False
    if kind == "thinned":
        return (lambda item: rounds - item <= rule[1] or (rounds - item + rounds) % 3 == 0), False
    if kind == "restart":
        return everything, before_choice and rounds % int(rule[1]) == 0
    if kind == "blank":
        return (nothing if before_choice and rounds % int(rule[1]) == 0 else everything), False
    seen = asked.newest
    if seen is None or (math.isinf(seen.noise) and kind not in ("replaced", "cusum", "glr")):
        return everything, False
    if kind == "agreeing":
        return (lambda item: not rows[item].usable or abs(rows[item].y - seen.y) <= rule[1]), False
    if kind == "replaced":
        return (lambda item: item == rounds - 1 or rows[item].index != rows[-1].index), False
    off = abs(seen.y - seen.mean)
    if kind == "confirmed":
        before, after = suspects(asked, False), suspects(asked, True, rule)
        fired = len(after) > rule[2]
        if fired:
            return (lambda item: item >= after[0]), True
        if before and not after:
            return (lambda item: not before[0] <= item < rounds - 1), False
        return everything, False
    fired = {
        "trigger": lambda: off > trigger_threshold(seen.sd, seen.noise, asked.since, rule[1]),
        "cusum": lambda: summed(rule, asked.memory, seen) > rule[2],
        "glr": lambda: likely_changed(rule, errors(asked.memory, seen), asked.since),
        "surprise": lambda: off > rule[1],
        "panic": lambda: off > rule[1],
    }[kind]()
    if kind == "panic":
        return (nothing if fired else everything), fired
    return (lambda item: not fired or item == rounds - 1), fired and kind != "surprise"


def suspects(asked: Question, newest: bool, rule: tuple = ()) -> tuple[int, ...]:
    """Rows since the last reset that contradicted in a row, the newest included or not."""
    rounds = asked.since - (asked.newest is None)
    memory = asked.memory if isinstance(asked.memory, tuple) else ()
    before = tuple(int(item) for item in memory if item >= len(asked.rows) - rounds)
    seen = asked.newest
    if not newest or seen is None or math.isinf(seen.noise):
        return before
    limit = trigger_threshold(seen.sd, seen.noise, asked.since, rule[1])
    return (*before, len(asked.rows) - 1) if abs(seen.y - seen.mean) > limit else ()


def trigger_threshold(sd: float, noise: float, rounds: int, delta: float) -> float:
    """Lemma 3 of [ET]: sqrt(2 L) sd + sqrt(2 noise L), L = ln(2 pi_t' / delta).

    pi_t' = pi^2 t'^2 / 6 with t' = ``rounds`` since the last reset.
    """
    L = math.log(2.0 * (math.pi**2 * rounds**2 / 6.0) / delta)
    return math.sqrt(2.0 * L) * sd + math.sqrt(2.0 * noise * L)


def summed(rule: tuple, memory: Memory, seen: Seen) -> float:
    """The cumulative sum after an observation."""
    surprise = abs(seen.y - seen.mean) / math.sqrt(seen.sd**2 + seen.noise)
    return max(0.0, memory + (0.0 if math.isinf(seen.noise) else surprise) - rule[1])


def errors(memory: Memory, seen: Seen) -> tuple[float, ...]:
    """Standardised prediction errors since the last reset, newest last."""
    so_far = memory if isinstance(memory, tuple) else ()
    if math.isinf(seen.noise):
        return so_far
    return (*so_far, (seen.y - seen.mean) / math.sqrt(seen.sd**2 + seen.noise))


def likely_changed(rule: tuple, errors: tuple[float, ...], since: int) -> bool:
    """Whether a sum of the newest errors is too large for a standard normal law."""
    lengths = min(since, rule[2])
    limit = math.log(lengths * math.pi**2 * since**2 / (6 * rule[1]))
    tried = range(1, min(len(errors), lengths) + 1)
    return any(sum(errors[-w:]) ** 2 / (2 * w) > limit for w in tried)


def remembered(rule: tuple, asked: Question, expired: bool, forgot: bool) -> Memory:
    """The memory of a rule after a round, given resets before or in the round."""
    memory, newest = asked.memory, asked.newest
    assert newest is not None
    if forgot:
        return 0.0
    if rule[0] == "confirmed":
        return suspects(asked, True, rule)
    if rule[0] == "glr":  # predictions after a reset are about the present
        return errors(0.0 if expired else memory, newest)
    if expired:
        return 0.0
    return summed(rule, memory, newest) if rule[0] == "cusum" else 0.0


@dataclass
class Rules:
    """The retained rows under rules, round by round."""

    rules: tuple[tuple, ...]
    rows: list[Row] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    began: int = 0  # rounds at the last reset
    origin: float | None = None  # time of the first observation since then
    memory: list[Memory] = field(default_factory=list)
    aside: Sequence[int] = ()  # retained rows that do not count for now
    cached: dict[float, tuple[Rules, bool]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.memory = self.memory or [0.0] * len(self.rules)

    def before_choice(self, now: float) -> tuple[Rules, bool]:
        """The retained rows at a choice, and whether there was a reset."""
        if now not in self.cached:
            self.cached[now] = self.asked(now, None)
        return self.cached[now]

    def asked(self, now: float, newest: Seen | None) -> tuple[Rules, bool]:
        """The rows that all rules retain, and whether there was a reset."""
        rows = self.rows
        if not self.rest:
            return self, False
        since = len(rows) - self.began + (newest is None)
        asked = [Question(rows, self.live, now, since, newest, memory) for memory in self.memory]
        answers = [answered(*item) for item in zip(self.rules, asked)]
        aside: Sequence[int] = ()
        for rule, item in zip(self.rules, asked):
            suspected = suspects(item, True, rule) if rule[0] == "confirmed" else ()
            if 0 < len(suspected) <= rule[2]:
                aside = range(suspected[0], len(rows))
        rest = [item for item in self.rest if all(stays(item) for stays, _ in answers)]
        reset = any(resets for _, resets in answers)
        began, origin = self.began, self.origin
        if reset:
            began = len(rows)
            origin = next((rows[item].time for item in rest if rows[item].usable), None)
        return Rules(self.rules, list(rows), rest, began, origin, list(self.memory), aside), reset

    @property
    def live(self) -> list[int]:
        """The retained rows that count."""
        return [item for item in self.rest if item not in self.aside]

    def observed(self, row: Row, newest: Seen) -> tuple[Rules, bool]:
        """The state after an observation: first its time passes, then rules see it."""
        before, expired = self.before_choice(row.time)
        origin = row.time if before.origin is None and row.usable else before.origin
        rows = [*before.rows, row]
        rest = [*before.rest, len(rows) - 1]
        with_it = Rules(
            self.rules, rows, rest, before.began, origin, list(before.memory), before.aside
        )
        after, forgot = with_it.asked(row.time, newest)
        since = len(rows) - before.began
        after.memory = [
            remembered(rule, Question(rows, rest, row.time, since, newest, memory), expired, forgot)
            for rule, memory in zip(self.rules, before.memory)
        ]
        return after, expired or forgot
