from datetime import datetime

import numpy as np
import pytest

from botorch_tv.simulation.panels import Panel, make_panel


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"values": np.zeros(3)}, r"values have shape \(3,\)"),
        ({"values": np.zeros((0, 2))}, r"shape \(0, 2\)"),
        ({"arms": ("a",)}, r"arms .* shape \(3, 2\); give 2"),
        ({"values": np.array([[1, 2], [3, np.inf], [5, 6]])}, r"\[\[1, 1\]\], row"),
        ({"times": np.arange(2)}, "times .*; give 3"),
        ({"times": np.array([0, 2, 1])}, r"rows \[2\] are not after"),
        ({"times": np.array([0, 1, 1])}, r"rows \[2\] are not after"),
        ({"coordinates": np.zeros((3, 2))}, "coordinates .*; give 2"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    given = {"values": np.arange(6.0).reshape(3, 2), "arms": ("a", "b"), **parts}
    with pytest.raises(ValueError, match=message):
        Panel(**given)


def daily(**changes):
    days = np.array(["2019-03-01", "2019-03-02", "2019-03-05", "2019-03-09"], "M8[D]")
    parts = {
        "values": np.arange(12.0).reshape(4, 3),
        "arms": ("a", "b", "c"),
        "times": days,
        "coordinates": np.array([[0.0, 1], [2, 3], [4, 5]]),
    }
    return Panel(**(parts | changes))


@pytest.mark.parametrize("arms", [["c", "a"], [2, 0], np.array([2, 0])])
def test_arms_by_name_and_number(arms):
    panel = daily().select(arms)
    assert panel.arms == ("c", "a")
    np.testing.assert_array_equal(panel.values, [[2, 0], [5, 3], [8, 6], [11, 9]])
    np.testing.assert_array_equal(panel.coordinates, [[4, 5], [0, 1]])
    np.testing.assert_array_equal(panel.times, daily().times)


def test_arms_with_readings():
    values = np.arange(12.0).reshape(4, 3)
    values[:, 1] = np.nan
    panel = daily(values=values, coordinates=None)
    read = panel.select(~np.isnan(panel.values).all(0))
    assert read.arms == ("a", "c")
    assert read.coordinates is None


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        (["d"], "0 arms are called 'd'; give names of single arms, or numbers from 0 to 2"),
        ([3], "out of bounds"),
        ([1.0], "integer"),
        ([], r"values have shape \(4, 0\)"),
        ([False] * 3, r"values have shape \(4, 0\)"),
        ([True, False], "boolean"),
    ],
)
def test_bad_arms(arms, message):
    with pytest.raises((ValueError, IndexError), match=message):
        daily().select(arms)


@pytest.mark.parametrize(
    ("start", "stop", "retained"),
    [
        (None, None, [0, 1, 2, 3]),
        ("2019-03-02", None, [1, 2, 3]),
        (None, "2019-03-05", [0, 1]),
        ("2019-03-03", "2019-03-09T00:01", [2, 3]),
        (np.datetime64("2019-03-02"), datetime(2019, 3, 6), [1, 2]),
        ("2019-01", "2020", [0, 1, 2, 3]),
    ],
)
def test_rows_by_date(start, stop, retained):
    panel = daily().rows(start, stop)
    np.testing.assert_array_equal(panel.values, daily().values[retained])
    np.testing.assert_array_equal(panel.times, daily().times[retained])
    assert panel.arms == ("a", "b", "c")
    assert daily().row_at(start or "1900") == retained[0]


def test_rows_by_number():
    untimed, timed = daily(times=None), daily(times=np.array([0.5, 1.0, 7.0, 9.0]))
    np.testing.assert_array_equal(untimed.rows(1, 3).values, untimed.values[1:3])
    assert untimed.rows(1, 3).times is None
    np.testing.assert_array_equal(timed.rows(1, 9).times, [1.0, 7.0])
    assert (timed.row_at(100), untimed.row_at(2)) == (4, 2)


@pytest.mark.parametrize(
    ("panel", "start", "stop", "message"),
    [
        (daily(), "2019-03-06", "2019-03-08", r"values have shape \(0, 3\)"),
        (daily(), "2020", None, r"values have shape \(0, 3\)"),
        (daily(times=None), 2, 2, r"values have shape \(0, 3\)"),
        (daily(), "soon", None, "soon"),
        (daily(), 3, None, "integer"),
        (daily(times=None), "soon", None, "soon"),
    ],
)
def test_bad_rows(panel, start, stop, message):
    with pytest.raises(ValueError, match=message):
        panel.rows(start, stop)


def test_made_panels():
    panel = make_panel(500, 12, gaps=0.1, seed=1)
    assert repr(panel).startswith("Panel(500 rounds x 12 arms, ")
    assert panel.times[48] - panel.times[0] == np.timedelta64(1, "D")
    missing = np.isnan(panel.values).mean()
    assert abs(missing - 0.1) < 5 * np.sqrt(0.09 / panel.values.size)
    np.testing.assert_array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=1).values)
    assert not np.array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=2).values)
    static = {"epsilon": 0.0, "noise": 0.0, "gaps": 0.0, "day": 24}
    with_cycle, without = (make_panel(72, 5, cycle=c, **static).values for c in (2.0, 0))
    cycle = with_cycle - without
    np.testing.assert_allclose(cycle[24:48], cycle[:24], atol=1e-12)
    assert np.abs(cycle).max() == pytest.approx(2.0, rel=0.01)


def test_made_field_has_the_covariance_it_states():
    panel = make_panel(20_000, 4, epsilon=1.0, noise=0.1, cycle=0.0, gaps=0.0)
    apart = ((panel.coordinates[:, None] - panel.coordinates) ** 2).sum(-1)
    expected = np.exp(-apart / (2 * 0.3**2)) + 0.1 * np.eye(4)
    products = panel.values[:, :, None] * panel.values[:, None, :]
    error = products.std(0) / np.sqrt(len(products))
    assert (np.abs(products.mean(0) - expected) < 5 * error).all()
