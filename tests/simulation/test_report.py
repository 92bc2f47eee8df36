from synthetic_results import make_result

from botorch_tv.simulation.report import summary_text, verdict


def test_table_by_hand():
    result = make_result({"B": [[2, 3], [2, 4], [5, 5]], "A": [[1, 1], [3, 1], [2, 4]]})
    lines = summary_text(result.summary()).splitlines()
    assert lines[1].split() == ["A", "4.0", "1.2", "2.000", "0.00"]
    assert lines[2].split() == ["B", "7.0", "1.5", "3.500", "0.00", "+3.0", "0.6", "5.2"]
    assert lines[0].rindex("in s.e.") + len("in s.e.") == len(lines[2])


def test_verdicts():
    clear = make_result({"B": [[5], [6], [10]], "A": [[2], [4], [6]]})
    assert verdict(clear) == (
        "A has the lowest regret, 4.000 a round, 5.2 standard errors below B over 3 paired trials."
    )
    close = make_result({"B": [[3], [3], [9]], "A": [[2], [4], [6]]})
    assert "B is only 0.9 standard errors behind over 3 paired trials" in verdict(close)
    assert "more trials" in verdict(make_result({"A": [[1]], "B": [[2]]}))
    assert verdict(make_result({"A": [[1], [2]]})) == "A alone was run: regret 1.500 a round."
