"""Categories that became better where nobody looked are found again."""

import pytest
import torch

from botorch_tv import adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import (
    EVERY,
    OLDEST,
    Measurement,
    overdue,
    retried,
    trial_answer,
    trial_log,
)
from botorch_tv.strategies.parameters import Choice, Number, Space

SMALL = Bank(outliers=0.0, rates=(0.0, 0.03), noise_ratios=(0.01,), features=40)
SPACE = Space({"x": Number(0.0, 1.0), "c": Choice("a", "b", "c"), "d": Choice(True, False)})


def tried(letters: str, others: str | None = None) -> torch.Tensor:
    others = "t" * len(letters) if others is None else others
    rows = [
        SPACE.point({"x": 0.1 * (n % 10), "c": c, "d": d == "t"})
        for n, (c, d) in enumerate(zip(letters, others))
    ]
    return torch.tensor(rows, dtype=torch.float64)


def value(letters: str, others: str | None = None) -> object:
    due = overdue(SPACE, tried(letters, others))
    return due if due is None else SPACE.axes[due[0]].choices[due[1]]


BOTH = "tf" * 400
ONCE = "bc" + "a" * 28 + "bc"
TWICE = ONCE + "a" * 58 + "bc"
THRICE = TWICE + "a" * 118 + "bc"
FOUR_TIMES = THRICE + "a" * 238 + "bc"


@pytest.mark.parametrize(
    ("letters", "others", "wanted"),
    [
        ("bc" + "a" * 28, BOTH, None),  # not for long enough
        ("bbcc" + "a" * 26, BOTH, None),
        ("bc" + "a" * 38, BOTH, "b"),
        ("cb" + "a" * 38, BOTH, "c"),
        ("a" * 8 + "bc" + "a" * 30, BOTH, "b"),
        ("a" * 9 + "cb" + "a" * 29, BOTH, "c"),
        ("bc" + "a" * 37, BOTH, None),  # one in ten trials at most
        ("bc" + "a" * 39, BOTH, None),
        ("abc" * 20, "f" + "t" * 59, False),
        ("abc" * 20, BOTH, None),
        ("bc" + "a" * 38, "tf" + "t" * 38, "b"),  # that of the oldest, whatever it is of
        ("cb" + "a" * 28 + "c" + "a" * 19, "tf" + "t" * 48, False),
        (ONCE + "a" * 28, BOTH, None),
        (ONCE + "a" * 58, BOTH, None),  # tried once in vain: after twice as long
        (ONCE + "a" * 68, BOTH, "b"),
        (ONCE + "b" + "a" * 37, BOTH, "b"),  # was gone on with, and c was not
        (TWICE + "a" * 118, BOTH, None),
        (TWICE + "a" * 128, BOTH, "b"),
        (THRICE + "a" * 238, BOTH, None),
        (THRICE + "a" * 248, BOTH, "b"),
        (FOUR_TIMES + "a" * 248, BOTH, "b"),  # no longer than that
    ],
)
def test_what_was_not_tried_for_longest_is_due(letters: str, others: str, wanted: object) -> None:
    assert value(letters, others) == wanted


def test_of_many_that_were_never_tried_each_has_its_turn() -> None:
    many = Space({"m": Choice(*range(40))})
    points = torch.tensor([many.point({"m": 0})] * 19, dtype=torch.float64)
    seen = []
    for _ in range(60 * EVERY):
        due = overdue(many, points)
        if due is not None:
            seen.append(due[1])
        new = torch.tensor([many.point({"m": 0 if due is None else due[1]})])
        points = torch.cat([points, new.double()])
    assert set(seen) == set(range(1, 40))
    assert len(seen) <= 60


def test_a_due_category_is_chosen_where_it_is_believed_best() -> None:
    space = Space({"x": Number(0, 16, step=1), "c": Choice("a", "b")})
    strategy = adaptive_gp_ucb(bank=SMALL)
    letters = "ab" * 4 + "a" * 32
    rows = [
        trial_answer(
            float(n), n, space.point({"x": (5 * n) % 17, "c": c}), float((5 * n) % 17) / 16
        )
        for n, c in enumerate(letters)
    ]
    state = trial_log(strategy, space).changed(rows, OLDEST).state
    plain = strategy.ask(state, now=40.0)
    suggestion = strategy.ask(retried(state), now=40.0)
    assert space.params(plain.X)["c"] == "a"
    assert space.params(suggestion.X)["c"] == "b"
    every = torch.tensor([space.point({"x": n, "c": "b"}) for n in range(17)]).double()
    posterior = strategy.posterior(state, every, now=40.0)
    mean, sd = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()
    best = int((mean + suggestion.sqrt_beta * sd).argmax())
    torch.testing.assert_close(suggestion.X, every[best])
    late = strategy.ask(retried(strategy.tell(state, suggestion, 0.3)[0]), now=41.0)
    assert space.params(late.X)["c"] == "a"


def test_a_hidden_flip_is_found() -> None:
    found: dict[bool, int] = {}
    for again in (True, False):
        noise = torch.Generator().manual_seed(2)
        space = Space({"x": Number(0.0, 1.0), "c": Choice("a", "b")})
        strategy = adaptive_gp_ucb(bank=SMALL, maximize=False)
        history = trial_log(strategy, space)
        rows: list[Measurement] = []
        for time in range(75):
            state = history.state
            X = strategy.ask(retried(state) if again else state, now=float(time)).X
            params = space.params(X)
            level = {"a": 0.5, "b": 1.0 if time < 25 else 0.0}[params["c"]]
            y = level + (params["x"] - 0.3) ** 2
            y += 0.05 * float(torch.randn((), generator=noise))
            rows.append(trial_answer(float(time), time, space.point(params), y))
            history = history.changed(rows, OLDEST)
        late = [space.params(torch.tensor(row.point))["c"] for row in rows[25:]]
        found[again] = late.count("b")
    assert found[True] >= 10
    assert found[False] <= 1
