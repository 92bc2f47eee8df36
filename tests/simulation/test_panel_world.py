import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from oracles.dense import squared_exponential
from oracles.panels import dense_log_likelihood

from botorch_tv.identity import describe
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.panels import fit_epsilon, log_likelihood, make_panel
from botorch_tv.simulation.panels.temporal import (
    carried_forward,
    filled_from_row,
    sample_covariance,
    sample_spectrum,
    spectrum,
)
from botorch_tv.simulation.streams import Stream

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}
GAP = np.nan


def replayed(world: PanelWorld, trials: int) -> np.ndarray:
    stream = Stream(0, "world", 0, trials, **CPU)
    return np.stack([row.clone().numpy() for row in world.rounds(stream)], axis=1)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("center", ["all", "arm"])
def test_model_and_objective(center, standardize):
    values = 280 + np.arange(8) + 3 * make_panel(60, 8, gaps=0.0).values
    options = {"center": center, "standardize": standardize, "noise_share": 0.2}
    world = PanelWorld(torch.from_numpy(values), 40, observation_noise=0.3, **options)
    centred = values - values[:40].mean(0 if center == "arm" else None)
    spread = np.sqrt((centred[:40] ** 2).mean())
    assert world.scale == pytest.approx(spread if standardize else 1)
    z = centred / world.scale
    np.testing.assert_allclose(world.mean, values[:40].mean(0 if center == "arm" else None))
    np.testing.assert_allclose(world.kernel, z[:40].T @ z[:40] / 40)
    assert world.model_noise == pytest.approx(0.2 * (spread / world.scale) ** 2)
    for trial in replayed(world, 3):
        np.testing.assert_allclose(trial, z[40:], atol=1e-11)
    assert (world.noise, world.horizon) == (0.3, 20)


def test_defaults():
    world = PanelWorld(make_panel(60, 8, gaps=0.0).values, 40)
    assert world.model_noise == pytest.approx(0.05)
    assert world.noise == 0.0
    np.testing.assert_array_equal(world.domain.X.squeeze(-1), np.arange(8))
    assert world.available(0, torch.tensor([1, 2])) is None
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
    assert len(PanelWorld(values, 2).training) == 2  # the fewest rows that have a covariance


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
    elsewhere = PanelWorld(panel, 20, coordinates=np.arange(4)[:, None])
    np.testing.assert_array_equal(elsewhere.domain.X, [[0], [1], [2], [3]])
    values = panel.values.copy()
    values[:20, 2] = GAP
    with pytest.raises(ValueError, match=r"without readings: sensor 2\. .*Panel.select"):
        PanelWorld(replace(panel, values=values), 20)


def test_uneven_times_cause_a_warning():
    panel = make_panel(30, 4, gaps=0.0)
    times = np.arange(30.0)
    times[11:] += 5
    with pytest.warns(UserWarning, match=r"10.0 to 16.0 is 6 times the usual step"):
        PanelWorld(replace(panel, times=times), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PanelWorld(replace(panel, times=None), 20)
        PanelWorld(replace(panel, times=np.arange(30.0)), 20)


LINE = squared_exponential(np.arange(6)[:, None], 2.0)
RATES = [0.0, 1e-6, 0.01, 0.3, 0.97, 1.0]
FEATURES = np.random.default_rng(2).standard_normal((6, 2))


@pytest.mark.parametrize(
    ("covariance", "rows"),
    [(LINE, None), (LINE, 3), (FEATURES @ FEATURES.T, 4)],
    ids=["whole", "grouped", "singular"],
)
def test_likelihood_by_dense_formula(covariance, rows):
    values = np.random.default_rng(1).standard_normal((10, 6))
    values[[4, 7]] = np.nan  # rows without readings
    labels = None if rows is None else np.arange(10) // rows
    curve = log_likelihood(values, covariance, 0.05, RATES, groups=rows)
    dense = [dense_log_likelihood(values, covariance, 0.05, e, labels) for e in RATES]
    np.testing.assert_allclose(curve, dense, rtol=1e-9)


def test_maximum_by_dense_likelihood():
    panel = make_panel(25, 6, epsilon=0.2, cycle=0.0, gaps=0.0, seed=3)
    covariance = squared_exponential(panel.coordinates, 0.3)
    fit = fit_epsilon(panel.values, covariance, 0.05)
    near = fit.epsilon * np.array([0.999, 1.0, 1.001])
    below, there, above = (dense_log_likelihood(panel.values, covariance, 0.05, e) for e in near)
    assert there >= max(below, above)
    assert fit.log_likelihood == pytest.approx(there, rel=1e-9)
    scan = np.linspace(0, 1, 101)
    assert max(dense_log_likelihood(panel.values, covariance, 0.05, e) for e in scan) <= there


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": 0.0}, "noise is 0.0"),
        ({"values": np.zeros(5)}, r"values have shape \(5,\)"),
        ({"values": np.zeros((5, 2))}, r"values have shape \(5, 2\), but the covariance is of 3"),
        ({"values": np.full((5, 3), np.nan)}, "none of the 1 groups has two rows"),
        ({"groups": 1}, "none of the 5 groups has two rows"),
        ({"covariance": np.diag([1.0, 1.0, -1e-7])}, "indefinite"),
    ],
)
def test_bad_fits(change, message):
    given = {"values": np.ones((5, 3)), "covariance": np.diag([1.0, 1.0, -1e-9]), "noise": 0.1}
    fit_epsilon(**given)
    with pytest.raises((ValueError, InputDataError), match=message):
        fit_epsilon(**given | change)
    with pytest.raises(ValueError, match=r"epsilon is \[1.5\]"):
        log_likelihood(np.ones((5, 2)), np.eye(2), 0.1, [1.5])


def gapped(rounds: int, arms: int, share: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.standard_normal((rounds, arms)) + random.standard_normal((rounds, 1))
    values[random.random((rounds, arms)) < share] = np.nan
    return values


def test_covariance_from_the_rows_a_pair_shares():
    values = gapped(400, 5, 0.3)
    expected = np.empty((5, 5))
    for i in range(5):
        for j in range(5):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            expected[i, j] = (values[both, i] * values[both, j]).mean()
    np.testing.assert_allclose(sample_covariance(values), expected, atol=1e-12)
    apart = np.array([[1.0, GAP], [2.0, GAP], [GAP, 3.0], [GAP, -1.0]])  # no common row
    np.testing.assert_allclose(sample_covariance(apart), [[2.5, 0], [0, 5]])


def test_negative_eigenvalues_are_clipped():
    values = gapped(12, 8, 0.5, seed=4)
    present, read = np.nan_to_num(values), ~np.isnan(values)
    raw = present.T @ present / np.maximum(read.T.astype(float) @ read, 1)
    eigenvalues, vectors = np.linalg.eigh(raw)
    assert eigenvalues[0] < -0.1
    nearest = vectors @ np.diag(eigenvalues.clip(0)) @ vectors.T
    np.testing.assert_allclose(sample_covariance(values), nearest, atol=1e-12)


def test_fewer_rows_than_arms():
    values = gapped(6, 20, 0.0)
    eigenvalues, vectors = sample_spectrum(values)
    assert eigenvalues.shape == (6,)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)
    again, _ = spectrum(sample_covariance(values))
    np.testing.assert_allclose(np.sort(again), np.sort(eigenvalues))


def test_gaps_by_their_conditional_mean():
    random = np.random.default_rng(0)
    features = random.standard_normal((6, 4))
    covariance, noise = features @ features.T, 0.1
    values = random.standard_normal((4, 6))
    values[0, 2] = values[1, 1:] = values[2] = np.nan
    filled = filled_from_row(values, spectrum(covariance), noise)
    total = covariance + noise * np.eye(6)
    for row, gaps in ((0, [2]), (1, [1, 2, 3, 4, 5])):
        read = [arm for arm in range(6) if arm not in gaps]
        weights = np.linalg.solve(total[np.ix_(read, read)], values[row, read])
        np.testing.assert_allclose(filled[row, gaps], covariance[np.ix_(gaps, read)] @ weights)
        np.testing.assert_array_equal(filled[row, read], values[row, read])
    assert np.isnan(filled[2]).all()
    np.testing.assert_array_equal(filled[3], values[3])
    assert np.isnan(values[0, 2])


def test_gaps_by_the_previous_or_first_reading():
    gap = np.nan
    values = np.array([[gap, 1.0], [2.0, gap], [gap, gap], [5.0, 3.0]])
    expected = [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [5.0, 3.0]]
    np.testing.assert_array_equal(carried_forward(values), expected)
