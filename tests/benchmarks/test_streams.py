"""A stream learner that is retuned: it is river's, and players choose good settings."""

import re
from itertools import islice

import numpy as np
import pytest

pytest.importorskip("river")
pytest.importorskip("optuna")
import optuna
from river.linear_model import LogisticRegression
from river.optim import SGD
from river.preprocessing import StandardScaler

from benchmarks.records import ROOT
from benchmarks.statistics import streams


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(streams, "WEEK", 100)
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def test_the_learner_is_that_of_river():
    X, y = streams.samples("agrawal", 3, weeks=1)
    rate, l2 = np.array([[0.3, 0.01], [2.0, 0.1]]).T
    found, weights = streams.learn(
        np.zeros((2, X.shape[1] + 1)),
        np.stack([X, X]),
        np.stack([y, y]),
        np.stack([rate, l2], 1),
    )
    for each in range(2):
        scaler = StandardScaler()
        learner = LogisticRegression(SGD(rate[each]), l2=l2[each], intercept_lr=rate[each])
        for x, label, error in zip(streams.river_stream("agrawal", 3), y, found[each]):
            scaler.learn_one(x[0])
            scaled = scaler.transform_one(x[0])
            assert learner.predict_one(scaled) == (label != error)
            learner.learn_one(scaled, bool(x[1]))
        own = [*learner.weights.values(), learner.intercept]
        assert weights[each] == pytest.approx(own, rel=1e-6, abs=1e-9)


@pytest.mark.few("weekly", "tpe", "halving", "never")
@pytest.mark.parametrize("player", streams.PLAYERS)
def test_players_choose_a_setting_of_small_error(player):
    made = streams.PLAYERS[player]((0, 1))
    for week, best in enumerate((0.6, 0.2)):
        trials = lambda X, share=1, best=best: 100 * ((X - best) ** 2).sum(1)  # noqa: E731
        found = made.chosen(week, trials, 12)
        aim = 0.6 if player == "never" else best
        cube = (np.log10(found) - streams.LOWEST) / (streams.HIGHEST - streams.LOWEST)
        assert (((cube - aim) ** 2).mean(1) < 0.05).all()  # at random 0.1 or more


def test_seeds_played_together_are_those_played_alone():
    both = streams.play("halving", "sea", (0, 1), weeks=3)
    assert both.shape == (2, 2)
    assert (both[1] == streams.play("halving", "sea", (1,), weeks=3)[0]).all()


def test_abrupt_changes_come_at_times_of_the_seed():
    first, again, other = (
        list(islice(streams.phases(lambda n: iter([n] * 10_000), s), 3000)) for s in (1, 1, 2)
    )
    assert first == again != other
    assert 2 <= first[-1] <= 12


@pytest.mark.full
def test_the_page_runs(capsys):
    text = (ROOT / ".site" / "pages" / "how-to" / "streams.md").read_text("utf-8")
    (code,) = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    exec(
        compile(code.replace("WEEKS, WEEK, TRIALS = 4", "WEEKS, WEEK, TRIALS = 2"), "", "exec"), {}
    )
    assert re.findall(r"week (\d): [\d.]+ % wrong", capsys.readouterr().out) == ["0", "1"]
