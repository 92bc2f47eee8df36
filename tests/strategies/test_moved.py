"""Measured points in another space have the values they had."""

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv import Choice, Context, Float, Integer
from botorch_tv.strategies.named import Parameters, moved

ZERO = torch.zeros((), dtype=torch.float64)
OLD = Parameters(
    {
        "x": (0, 4),
        "rate": Float(1e-3, 1, log=True),
        "n": Integer(2, 8, step=2),
        "kind": Choice("a", "b"),
        "outside": Context(-10, 40),
    }
)
POINTS = [
    {"x": 3.5, "rate": 0.02, "n": 6, "kind": "b", "outside": 12.25},
    {"x": 0.0, "rate": 1.0, "n": 2, "kind": "a", "outside": 55.5},
]
PLACED = torch.stack([OLD.place(point, ZERO) for point in POINTS])


def test_values_stay_where_they_were_measured():
    """Narrowed, rescaled, reordered, with another step, a new value, parameter and context."""
    new = Parameters(
        {
            "pressure": (1, 5),
            "kind": Choice("c", "b", "a"),
            "n": Integer(3, 9, step=3),
            "x": (1, 3),
            "rate": Float(0.1, 2),
            "outside": Context(0, 20),
            "day": Context("mon", "tue"),
        }
    )
    X = moved(PLACED, OLD, new, {"pressure": 2, "day": "tue"})
    assert X.shape == (2, new.columns + new.context_columns)
    for row, point in zip(X, POINTS):
        assert new.named(row, outside=True) == point | {"pressure": 2, "day": "tue"}
        again = new.place(point | {"pressure": 2, "day": "tue"}, ZERO, outside=True)
        torch.testing.assert_close(again, row, rtol=0, atol=1e-9)
    place = {name: float(X[0, at.start]) for name, at in zip(new, new.places)}
    assert place["x"] == pytest.approx((3.5 - 1) / 2)
    assert place["rate"] == pytest.approx((0.02 - 0.1) / 1.9)
    assert place["n"] == pytest.approx((6 - 3) / 6)
    assert float(X[1, new.columns]) == pytest.approx(55.5 / 20)
    alone = moved(PLACED[:, : OLD.columns], OLD, OLD)
    torch.testing.assert_close(alone, PLACED[:, : OLD.columns])


@pytest.mark.parametrize(
    ("changes", "had", "words"),
    [
        ({"p": (0, 1)}, {}, "new parameters p, but values are given for none"),
        ({}, {"x": 3}, "new parameters none, but values are given for x"),
        ({"kind": Choice("a", "c")}, {}, "kind was measured at 'b', which has no place"),
        ({"x": Float(1, 3, log=True)}, {}, "x was measured at 0.0, which has no place"),
        ({"n": None}, {}, "n is missing in the new space, but .* hold it"),
        ({"q": Choice("u", "v")}, {"q": "w"}, "q was measured at 'w', which has no place"),
    ],
)
def test_what_cannot_be_moved(changes, had, words):
    every = {**OLD.by_name, **OLD.contexts, **changes}
    new = Parameters({name: axis for name, axis in every.items() if axis is not None})
    with pytest.raises(InputDataError, match=words):
        moved(PLACED, OLD, new, had)
