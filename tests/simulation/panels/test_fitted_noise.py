"""Noise that is fitted together with the rate of change."""

import numpy as np
import pytest
from oracles.panels import dense_log_likelihood

from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.panels.temporal import (
    covariance_of,
    fit_noise,
    sample_covariance,
    sample_spectrum,
)

ARMS, ROWS = 8, 200


def readings(noise: float, seed: int, rows: int = ROWS, gaps: float = 0.0) -> np.ndarray:
    return make_panel(rows, ARMS, epsilon=0.1, noise=noise, cycle=0.0, gaps=gaps, seed=seed).values


@pytest.mark.parametrize("noise", [0.02, 0.3])
def test_noise_of_simulated_panels_is_found(noise: float) -> None:
    found = []
    for seed in range(3):
        values = readings(noise, seed)
        values = values - values.mean(0)
        found.append(fit_noise(values, sample_spectrum(values), None)[0])
    np.testing.assert_allclose(found, noise, rtol=0.25)


def test_it_is_the_maximum_of_the_dense_likelihood() -> None:
    """Of that of the readings with covariance (S - σ² I) ⊗ K_time + σ² I."""
    values = readings(0.2, 3, rows=40)
    values = values - values.mean(0)
    fitted, rate, covariance = fit_noise(values, sample_spectrum(values), None)
    values_of, vectors = np.linalg.eigh(sample_covariance(values))

    def dense(noise: float, epsilon: float) -> float:
        left = (vectors * np.maximum(values_of - noise, 0)) @ vectors.T
        return dense_log_likelihood(values, left, noise, epsilon)

    there = dense(fitted, rate)
    np.testing.assert_allclose(
        covariance_of(covariance),
        (vectors * np.maximum(values_of - fitted, 0)) @ vectors.T,
        atol=1e-12,
    )
    for noise in (0.01, 0.1, 0.5 * fitted, 0.9 * fitted, 1.1 * fitted, 2 * fitted):
        for epsilon in (0.01, 0.5 * rate, rate, min(1.0, 2 * rate)):
            assert dense(noise, epsilon) <= there


def test_a_world_is_built_on_it() -> None:
    values = readings(0.3, 5, rows=260, gaps=0.01)
    fixed = PanelWorld(values, 200, standardize=False)
    world = PanelWorld(values, 200, standardize=False, noise_share="fitted")
    assert world.model_noise == pytest.approx(0.3, rel=0.25)
    assert world.noise_share == pytest.approx(world.model_noise / np.nanmean(world.training**2))
    assert float(np.abs(np.linalg.eigvalsh(world.kernel.numpy())).max()) == pytest.approx(
        float(np.linalg.eigvalsh(fixed.kernel.numpy()).max()) - world.model_noise
    )
    # Noise that is taken for a part of the objective looks like change.
    assert abs(world.epsilon - 0.1) < 0.5 * abs(fixed.epsilon - 0.1)


def test_few_complete_rows_are_refused() -> None:
    values = readings(0.1, 6, rows=60, gaps=0.3)
    with pytest.raises(
        ValueError,
        match=r"noise of 8 arms can be fitted to 32 or more complete rows, but there are \d+;",
    ):
        PanelWorld(values, 50, noise_share="fitted")
