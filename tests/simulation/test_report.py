from synthetic_results import make_result

from botorch_tv.simulation.result import verdict


def test_verdicts():
    clear = make_result({"B": [[5], [6], [10]], "A": [[2], [4], [6]]})
    assert verdict(clear) == (
        "A has the lowest regret, 4.000 a round, 5.2 standard errors below B over 3 paired trials."
    )
    close = make_result({"B": [[3], [3], [9]], "A": [[2], [4], [6]]})
    assert "B is only 0.9 standard errors behind over 3 paired trials" in verdict(close)
    assert "run more trials" in verdict(make_result({"A": [[1]], "B": [[2]]}))
    assert verdict(make_result({"A": [[1], [2]]})) == "Only A was run: regret 1.500 a round."
