import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from botorch_tv.identity import describe
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.panels import fit_epsilon, make_panel
from botorch_tv.simulation.streams import Stream

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}
GAP = np.nan


def replayed(world: PanelWorld, trials: int) -> np.ndarray:
    stream = Stream(0, "world", 0, trials, **CPU)
    return np.stack([row.clone().numpy() for row in world.rounds(stream)], axis=1)


def test_model_and_objective():
    values = 10 + 3 * make_panel(60, 8, gaps=0.0).values
    world = PanelWorld(values, 40)
    mean, scale = values[:40].mean(), values[:40].std()
    z = (values - mean) / scale
    assert float(world.mean) == pytest.approx(mean)
    assert world.scale == pytest.approx(scale)
    np.testing.assert_allclose(world.kernel, z[:40].T @ z[:40] / 40, atol=1e-12)
    assert world.model_noise == pytest.approx(0.05)
    assert (world.noise, world.horizon) == (0.0, 20)
    np.testing.assert_array_equal(world.domain.X.squeeze(-1), np.arange(8))
    for trial in replayed(world, 3):
        np.testing.assert_allclose(trial, z[40:], atol=1e-12)
    assert world.available(0, torch.tensor([1, 2])) is None


def test_centred_arms():
    values = make_panel(60, 8, gaps=0.0).values + np.arange(8)
    world = PanelWorld(torch.from_numpy(values), 40, center="arm", noise_share=0.2)
    centred = values - values[:40].mean(0)
    scale = np.sqrt((centred[:40] ** 2).mean())
    np.testing.assert_allclose(world.kernel, np.cov(values[:40].T, bias=True) / scale**2)
    np.testing.assert_allclose(replayed(world, 1)[0], centred[40:] / scale)
    assert world.model_noise == pytest.approx(0.2)
    assert PanelWorld(values, 40, observation_noise=0.3).noise == 0.3
    single = Stream(0, "world", 0, 2, dtype=torch.float32, device=torch.device("cpu"))
    assert next(iter(world.rounds(single))).dtype == torch.float32


def test_identity_is_the_readings_and_not_the_fit():
    values = make_panel(50, 5, gaps=0.1).values
    world, changed = PanelWorld(values, 40), values.copy()
    before = describe(world, "world")
    assert 0 < world.epsilon < 1
    assert describe(world, "world") == before
    changed[45, 2] = 0.5
    assert describe(PanelWorld(changed, 40), "world") != before
    assert repr(world) == repr(PanelWorld(values, 40))


def test_units_of_readings():
    values = 280 + 5 * make_panel(60, 8, gaps=0.0).values
    unit, retained = PanelWorld(values, 40), PanelWorld(values, 40, standardize=False)
    assert retained.scale == 1.0
    np.testing.assert_allclose(retained.kernel, unit.kernel * unit.scale**2)
    np.testing.assert_allclose(retained.objective, unit.objective * unit.scale, atol=1e-12)
    assert retained.model_noise == pytest.approx(0.05 * unit.scale**2)
    assert retained.epsilon == pytest.approx(unit.epsilon, rel=1e-3)


def test_epsilon_is_fitted_to_training_rows():
    panel = make_panel(120, 10, gaps=0.05)
    world = PanelWorld(panel.values, 80, groups=20)
    z = (panel.values[:80] - float(world.mean)) / world.scale
    fit = fit_epsilon(z, world.kernel.numpy(), world.model_noise, groups=20)
    assert world.epsilon == pytest.approx(fit.epsilon, rel=1e-4)
    assert world.epsilon != pytest.approx(PanelWorld(panel.values, 80).epsilon, rel=1e-3)


def test_gaps_have_the_previous_reading_and_no_observation():
    values = np.array([[1.0, 5.0], [2.0, 6.0], [GAP, 7.0], [GAP, GAP], [3.0, 4.0], [9.0, GAP]])
    world = PanelWorld(values, 3, standardize=False)
    mean = np.nanmean(values[:3])
    expected = np.array([[2.0, 7.0], [3.0, 4.0], [9.0, 4.0]]) - mean
    np.testing.assert_allclose(world.objective, expected)
    seen = [world.available(step, torch.tensor([0, 1])).tolist() for step in range(3)]
    assert seen == [[False, False], [True, True], [True, False]]


def test_first_arms():
    values = make_panel(30, 7, gaps=0.0).values

    def drawn(seed: int, first: int, trials: int, **options: object) -> torch.Tensor | None:
        world = PanelWorld(values, 20, **options)
        return world.first_arm(Stream(seed, "first arm", first, trials, **CPU))

    arms = drawn(0, 0, 7000)
    counts = arms.bincount(minlength=7).double()
    assert arms.dtype == torch.int64
    assert float(((counts - 1000) ** 2 / 1000).sum()) < 22.5  # chi-squared, 6 degrees, 0.1 %
    assert torch.equal(arms[100:110], drawn(0, 100, 10))
    assert not torch.equal(arms[:50], drawn(1, 0, 50))
    # Neighbouring trials start anywhere: at the next arm as often as at any other.
    step = (arms.diff() % 7).bincount(minlength=7).double()
    assert float(((step - 6999 / 7) ** 2 / (6999 / 7)).sum()) < 22.5
    assert drawn(0, 0, 3, first_arm=4).tolist() == [4, 4, 4]
    assert drawn(0, 5, 4, first_arm="each").tolist() == [5, 6, 0, 1]
    assert drawn(0, 0, 3, first_arm=None) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train": 1}, "train is 1"),
        ({"train": 10}, "train is 10, .* 10 rows .* at most 9"),
        ({"observation_noise": -1.0}, "noise is -1.0"),
        ({"groups": 1}, "groups is 1"),
        ({"first_arm": 3}, "first_arm is 3, .* 0 to 2"),
        ({"first_arm": -1}, "first_arm is -1"),
        ({"coordinates": np.zeros((2, 2))}, "coordinates .*give 3"),
        ({"coordinates": np.zeros((3, 2))}, "the same coordinates"),
        ({"values": np.zeros((10, 3))}, "standard deviation of the training rows is 0"),
        ({"values": np.full((10, 3), np.inf)}, "infinite"),
        ({"values": np.full((10, 3), GAP)}, "0 of 5 training rows"),
    ],
)
def test_bad_input(options, message):
    given = {"values": np.random.default_rng(0).random((10, 3)), "train": 5, **options}
    with pytest.raises(ValueError, match=message):
        PanelWorld(**given)


def test_names_and_coordinates_of_a_panel():
    panel = make_panel(30, 4, gaps=0.0)
    world = PanelWorld(panel, panel.row_at("2000-01-01T10:00"))
    assert world.horizon == 10  # half an hour a row
    np.testing.assert_array_equal(world.domain.X, panel.coordinates)
    assert torch.equal(world.objective, PanelWorld(panel.values, 20).objective)
    swapped = PanelWorld(replace(panel, coordinates=panel.coordinates[:, ::-1]), 20)
    np.testing.assert_array_equal(swapped.domain.X, panel.coordinates[:, [1, 0]])
    elsewhere = PanelWorld(panel, 20, coordinates=np.arange(4)[:, None])
    np.testing.assert_array_equal(elsewhere.domain.X, [[0], [1], [2], [3]])
    values = panel.values.copy()
    values[:20, 2] = GAP
    silent = replace(panel, values=values)
    with pytest.raises(ValueError, match=r"without readings: sensor 2\. .*Panel.select"):
        PanelWorld(silent, 20)
    assert len(PanelWorld(silent.select(["sensor 0", "sensor 3"]), 20).domain) == 2


def test_uneven_times_cause_a_warning():
    panel = make_panel(30, 4, gaps=0.0)
    times = np.arange(30.0)
    times[11:] += 5
    uneven = replace(panel, times=times)
    with pytest.warns(UserWarning, match="10.0 to 16.0 are 6 usual steps"):
        PanelWorld(uneven, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PanelWorld(replace(uneven, times=None), 20)
        PanelWorld(replace(panel, times=np.arange(30.0)), 20)
