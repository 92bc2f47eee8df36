"""The textbook's expert by hand."""

import math

import numpy as np
from oracles.dense import DenseBandit
from oracles.expert import Consultant, greedy


def test_greedy_takes_the_largest_variance() -> None:
    K = np.array([[1.0, 0, 0, 0], [0, 4, 4, 2], [0, 4, 4, 2], [0, 2, 2, 2]])
    assert greedy(K, [0, 1, 2, 3], 2) == [1, 0]  # left of arm 3: 2 - 4 / 4 = 1, a tie with arm 0
    assert greedy(K, [3, 2, 1, 0], 3) == [2, 3, 0]
    assert greedy(K, [0, 1, 2, 3], 4) == [1, 0, 3]  # the fourth says nothing new
    assert greedy(K, [3], 4) == [3]


def test_answers_replace_all_earlier_rows() -> None:
    bandit = DenseBandit(np.eye(4), 1.0, consultant=Consultant(lambda t: t == 2, c_Q=9.0))
    for arm, y, ok in ((2, 0.8, False), (1, 0.5, True), (3, -1.0, True)):
        bandit.tell(bandit.consider(arm), y, ok=ok)
    # Asked after round 2: of arm 2, first in round 1, nothing is said, since 1 + 2 = 3.
    assert [(row.index, row.time) for row in bandit.live(4.0)] == [(1, 2.0), (3, 3.0)]
    answer = 0.5 * 0.5 + math.cos(2 + 0.6)
    np.testing.assert_allclose(bandit.predict().mean, [0.0, answer / 2, 0.0, -0.5])
    silent = DenseBandit(np.eye(4), 1.0, consultant=Consultant(lambda t: t == 2))
    for arm in (1, 1):
        silent.tell(silent.consider(arm), 1.0)
    assert [row.time for row in silent.live(3.0)] == [1.0, 2.0]
