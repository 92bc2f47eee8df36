import pandas as pd
from synthetic_results import make_result

RESULT = make_result({"B": [[2, 3], [2, 4], [5, 5]], "A": [[1, 1], [3, 1], [2, 4]]})


def test_printed_by_hand():
    lines = str(RESULT.summary()).splitlines()
    assert lines[1].split() == ["A", "4.0", "1.2", "2.000", "0.00"]
    assert lines[2].split() == ["B", "7.0", "1.5", "3.500", "0.00", "+3.0", "0.6", "5.2"]
    assert lines[0].rindex("in s.e.") + len("in s.e.") == len(lines[2])


def test_all_columns_are_printed():
    with pd.option_context("display.width", 40, "display.max_columns", 3):
        printed = str(RESULT.summary())
    assert "..." not in printed
    assert "above best" in printed
    assert "5.2" in printed.splitlines()[2]


def test_a_part_is_a_plain_table():
    part = RESULT.summary()[["total_regret"]]
    assert type(part) is pd.DataFrame
    assert "total_regret" in str(part)
    assert RESULT.summary().sort_index().index.tolist() == ["A", "B"]
