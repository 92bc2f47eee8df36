import numpy as np
import pytest

from botorch_tv.simulation.panels import Panel, make_panel


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"values": np.zeros(3)}, r"values have shape \(3,\)"),
        ({"values": np.zeros((0, 2))}, r"shape \(0, 2\)"),
        ({"arms": ("a",)}, "1 names for 2 arms"),
        ({"values": np.array([[1, 2], [3, np.inf], [5, 6]])}, "arm 'b' in row 1 is infinite"),
        ({"times": np.arange(2)}, "3 rows"),
        ({"times": np.array([0, 2, 1])}, "row 2 is of 1, which is not after 2"),
        ({"times": np.array([0, 1, 1])}, "row 2 is of 1"),
        ({"coordinates": np.zeros((3, 2))}, r"coordinates have shape \(3, 2\); give 2 x d"),
    ],
)
def test_parts_that_do_not_fit(parts, message):
    given = {"values": np.arange(6.0).reshape(3, 2), "arms": ("a", "b"), **parts}
    with pytest.raises(ValueError, match=message):
        Panel(**given)


def test_made_panels():
    panel = make_panel(500, 12, gaps=0.1, seed=1)
    assert repr(panel).startswith("Panel(500 rounds x 12 arms, ")
    assert panel.times[48] - panel.times[0] == np.timedelta64(1, "D")
    assert panel.coordinates.shape == (12, 2)
    missing = np.isnan(panel.values).mean()
    assert abs(missing - 0.1) < 5 * np.sqrt(0.09 / panel.values.size)
    np.testing.assert_array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=1).values)
    assert not np.array_equal(panel.values, make_panel(500, 12, gaps=0.1, seed=2).values)


def test_made_field_has_the_covariance_it_states():
    """Renewed every round, so rows are independent draws; five standard errors."""
    panel = make_panel(20_000, 4, epsilon=1.0, noise=0.1, cycle=0.0, gaps=0.0)
    apart = ((panel.coordinates[:, None] - panel.coordinates) ** 2).sum(-1)
    expected = np.exp(-apart / (2 * 0.3**2)) + 0.1 * np.eye(4)
    products = panel.values[:, :, None] * panel.values[:, None, :]
    error = products.std(0) / np.sqrt(len(products))
    assert (np.abs(products.mean(0) - expected) < 5 * error).all()


def test_made_cycle_comes_back_every_day():
    still = {"epsilon": 0.0, "noise": 0.0, "gaps": 0.0, "day": 24}
    cycle = (
        make_panel(72, 5, cycle=2.0, **still).values - make_panel(72, 5, cycle=0, **still).values
    )
    np.testing.assert_allclose(cycle[24:48], cycle[:24], atol=1e-12)
    assert np.abs(cycle).max() == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("name", "value"),
    [("rounds", 0), ("arms", 0), ("day", 0), ("epsilon", 1.1), ("gaps", 1.0), ("noise", -1.0)],
)
def test_parameters_out_of_range(name, value):
    with pytest.raises(ValueError, match=f"make_panel: {name} is {value}"):
        make_panel(**{name: value})
