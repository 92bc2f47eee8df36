import math

import pandas as pd

from botorch_tv.papers.claims import compared, outcome_text
from botorch_tv.papers.experiment import Outcome
from botorch_tv.simulation.study_record import Paired

CLAIMS = [
    compared("slow", "ET-GP-UCB", "GP-UCB", Paired(12.34, 2.0), 3.0, False),
    compared("slow", "TV-GP-UCB", "ET-GP-UCB", Paired(-1234.5, 1e-13), 3.0, False),
    compared("fast", "GP-UCB", "Random", Paired(0.00012, 0.00001), 5.0, True),
]
NUMBERS = [
    {"windows": 210, "case": "slow", "share": 0.4083},
    {"windows": 3, "case": "f", "share": 1},
]


def text(**changes):
    table = pd.concat([pd.DataFrame(CLAIMS), pd.DataFrame(NUMBERS)], ignore_index=True)
    return outcome_text(Outcome(table, "One does not hold.", False)._replace(**changes))


def test_claims_numbers_and_verdict():
    claims, numbers, verdict = text().split("\n\n")
    head, first, second, third = (line.split() for line in claims.splitlines())
    assert head[:5] == ["case", "lower", "higher", "required", "ours"]
    assert first == ["slow", "ET-GP-UCB", "GP-UCB", "3", "False", "12.34", "2", "6.17", "True"]
    assert second[5:] == ["-1234.5", "1e-13", "-inf", "False"]
    assert third == ["fast", "GP-UCB", "Random", "5", "True", "0.00012", "1e-05", "12", "True"]
    assert [line.split() for line in numbers.splitlines()] == [
        ["case", "windows", "share"],
        ["slow", "210", "0.4083"],
        ["f", "3", "1"],
    ]
    assert verdict == "Does not agree with the paper. One does not hold."
    assert "nan" not in text().lower()


def test_other_verdicts():
    assert text(holds=True).endswith("\n\nAgrees with the paper. One does not hold.")
    assert text(holds=None).endswith("Nothing to agree or disagree with. One does not hold.")
    assert text(holds=None, judged=False).endswith("Not judged. One does not hold.")


def test_a_single_trial_has_no_error():
    row = compared("slow", "A", "B", Paired(1.0, math.nan), 5.0, False)
    lines = outcome_text(Outcome(pd.DataFrame([row]), "", False)).splitlines()
    assert lines[1].split() == ["slow", "A", "B", "5", "False", "1", "False"]
