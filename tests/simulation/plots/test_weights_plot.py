import numpy as np
import pytest
from gpytorch.kernels import RBFKernel
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from pictures import assert_written

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import MarkovWorld, StudyResult, Weights, run_study
from botorch_tv.strategies import Grid, adaptive_gp_ucb, gp_ucb

BANK = Bank(rates=(0.05, 0.0), hazards=(0.0, 0.1), lengthscales=(0.2, 0.4), noise_ratios=(0.01,))
NAMES = ("rate", "hazard", "lengthscale", "noise_ratio")


@pytest.fixture(scope="module")
def result() -> StudyResult:
    domain, kernel = Grid.regular(points=5, dim=2), RBFKernel().double()
    kernel.lengthscale = 0.3
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.1, noise=0.02)
    players = {
        "GP": gp_ucb(kernel=kernel, noise=0.02),
        "adaptive": adaptive_gp_ucb(bank=BANK),
        "other": adaptive_gp_ucb(bank=Bank(rates=(0.1,), features=16)),
    }
    settings = {"trials": 5, "horizon": 12, "progress": False, "record": (Weights(BANK),)}
    return run_study(world, players, **settings)


def test_curves_are_means_and_bands_the_middle_half(result, tmp_path) -> None:
    figure = result.plot_weights(tmp_path / "weights.png")
    assert_written(tmp_path / "weights.png")
    assert len(figure.axes) == 5
    for axes, name in zip(figure.axes, NAMES):
        weight = result.data[f"weight_{name}"].sel(strategy="adaptive").sortby(name)
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == [f"{value:g}" for value in sorted(weight[name].values)]
        bands = [band for band in axes.collections if isinstance(band, PolyCollection)]
        for number, (line, band) in enumerate(zip(axes.lines, bands, strict=True)):
            values = weight.values[..., number]
            np.testing.assert_allclose(line.get_ydata(), values.mean(0))
            np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 13))
            corners = band.get_paths()[0].vertices
            last = corners[corners[:, 0] == 12, 1]
            wanted = np.quantile(values[:, -1], [0.25, 0.75])
            np.testing.assert_allclose((last.min(), last.max()), wanted)
    jump = result.data["jump"].sel(strategy="adaptive").values
    np.testing.assert_allclose(figure.axes[-1].lines[0].get_ydata(), jump.mean(0))


def test_one_trial_has_no_bands(result) -> None:
    figure = result.plot_weights(strategy="adaptive", trial=3)
    weight = result.data["weight_rate"].sel(strategy="adaptive", trial=3).sortby("rate")
    for number, line in enumerate(figure.axes[0].lines):
        np.testing.assert_allclose(line.get_ydata(), weight.values[:, number])
    assert not figure.axes[0].collections


def test_own_axes_show_the_rates(result, tmp_path) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert result.plot_weights(ax=right) is figure
    assert figure.axes == [left, right]
    whole = result.plot_weights().axes[0]
    for mine, theirs in zip(right.lines, whole.lines, strict=True):
        np.testing.assert_array_equal(mine.get_xydata(), theirs.get_xydata())
        assert (mine.get_color(), mine.get_label()) == (theirs.get_color(), theirs.get_label())
    with pytest.raises(ValueError, match="path and ax are both given"):
        result.plot_weights(tmp_path / "both.png", ax=right)


def test_bad_input(result) -> None:
    for changes, message in (
        ({"strategy": "GP"}, "GP has no recorded weights.*choose from adaptive"),
        ({"strategy": "other"}, "no recorded weights"),
        ({"strategy": "none"}, "none"),
    ):
        with pytest.raises(ValueError, match=message):
            result.plot_weights(**changes)
    with pytest.raises(KeyError):
        result.plot_weights(trial=5)
    domain, kernel = Grid.regular(points=3, dim=1), RBFKernel().double()
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.1, noise=0.02)
    players = {"GP": gp_ucb(kernel=kernel, noise=0.02)}
    for record, message in (((), "record="), ((Weights(),), "give its bank to Weights")):
        bare = run_study(world, players, trials=1, horizon=2, progress=False, record=record)
        with pytest.raises(ValueError, match=message):
            bare.plot_weights()
