"""What `botorch-tv paper` prints: every claim, every number, no gap, in words a reader can use."""

import math

import pandas as pd

from botorch_tv.papers import claims
from botorch_tv.papers.claims import outcome_text
from botorch_tv.papers.experiment import Outcome
from botorch_tv.simulation.study_record import Paired

CLAIMS = [
    claims.compared("slow", "ET-GP-UCB", "GP-UCB", Paired(12.34, 2.0), 3.0, False),
    claims.compared("slow", "TV-GP-UCB", "ET-GP-UCB", Paired(-1234.5, 1e-13), 3.0, False),
    claims.compared("fast", "GP-UCB", "Random", Paired(0.00012, 0.00001), 5.0, True),
]
NUMBERS = [
    {"windows": 210, "case": "slow", "share": 0.4083},
    {"windows": 3, "case": "f", "share": 1},
]


def told(**changes):
    table = pd.concat([pd.DataFrame(CLAIMS), pd.DataFrame(NUMBERS)], ignore_index=True)
    return outcome_text(Outcome(table, "One does not hold.", False)._replace(**changes))


def words(text, beginning):
    (line,) = [line for line in text.splitlines() if line.startswith(beginning)]
    return " ".join(line.split())


def test_claims_of_the_paper_and_ours_stand_apart_with_their_answers():
    paper, ours, numbers, verdict = told().split("\n\n")
    assert paper.startswith("Claims of the paper, the first lower than the second:\n")
    assert words(paper, "slow  ET") == "slow ET-GP-UCB < GP-UCB yes 12.3 2 6.17 > 3"
    assert words(paper, "slow  TV") == "slow TV-GP-UCB < ET-GP-UCB no -1,234 0 -∞ > 3"
    assert ours.startswith("Expected besides, not claimed by the paper:\n")
    assert words(ours, "fast") == "fast GP-UCB < Random yes 1.2e-04 1.0e-05 12 > 5"
    assert numbers.splitlines()[1].split() == ["slow", "210", "0.408"]
    assert verdict == "Does not agree with the paper. One does not hold."


def test_nothing_is_printed_as_missing_and_columns_are_flush():
    text = told()
    assert "nan" not in text.lower()
    for part in text.split("\n\n")[:-1]:
        table = [line for line in part.splitlines() if not line.endswith(":")]
        assert len({len(line) for line in table}) == 1  # the last column is of numbers: flush right


def test_the_three_other_verdicts():
    assert told(holds=True).endswith("\n\nAgrees with the paper. One does not hold.")
    assert told(holds=None).endswith("Nothing to agree or disagree with. One does not hold.")
    assert told(holds=None, judged=False).endswith("Not judged. One does not hold.")


def test_claims_that_are_not_judged_give_no_answer():
    table = pd.DataFrame(CLAIMS).drop(columns="holds")
    text = outcome_text(Outcome(table, "Too small.", None, judged=False))
    assert words(text, "slow  ET") == "slow ET-GP-UCB < GP-UCB 12.3 2 6.17 > 3"
    assert "holds" not in text


def test_a_single_trial_has_no_error():
    table = pd.DataFrame([claims.compared("slow", "A", "B", Paired(1.0, math.nan), 5.0, False)])
    assert words(outcome_text(Outcome(table, "", False)), "slow") == "slow A < B no 1 > 5"
