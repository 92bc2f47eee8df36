import numpy as np
import pytest
from pictures import assert_curves, assert_written, named_curves
from synthetic_results import drawn_diagnosis, make_diagnosed, make_result

WIDTHS = {"GP-UCB": 3.0, "TV-GP-UCB": 1.0, "ET-GP-UCB": 2.0}


@pytest.fixture
def result():
    return drawn_diagnosis(WIDTHS, trials=8, rounds=60, trigger_of="ET-GP-UCB")


def texts(axes):
    return [text.get_text() for text in axes.texts]


def line_named(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line


def test_trigger_picture_marks_every_reset(result, tmp_path):
    trial = result.triggers()["trial"].mode()[0]  # the trial with most resets
    figure = result.plot_triggers("ET-GP-UCB", trial, tmp_path / "new" / "triggers.png")
    assert (tmp_path / "new" / "triggers.png").stat().st_size > 10_000
    above, below = figure.axes
    fired = result.triggers().query("trial == @trial")
    marked = line_named(above, "reset")
    np.testing.assert_array_equal(marked.get_xdata(), fired["round"])
    np.testing.assert_array_equal(marked.get_ydata(), fired["observation"])
    model, noise = (
        next(lines for lines in below.collections if lines.get_label() == label).get_segments()
        for label in ("error of the model", "noise")
    )
    for row, of_model, of_noise in zip(fired.itertuples(), model, noise):
        assert of_model[0] == pytest.approx((row.round, 0))
        assert of_model[1, 1] == pytest.approx((row.objective - row.mean) / row.band)
        assert of_noise[0] == pytest.approx(of_model[1])
        assert of_noise[1, 1] == pytest.approx((row.observation - row.mean) / row.band)
        assert abs(of_noise[1, 1]) > 1
    assert f"trial {trial}: resets {len(fired)} (" in figure.get_suptitle()


def test_headline_names_the_causes():
    values = {  # of the band 3, sd = 1 has two thirds and σ = 0.5 one third
        "observation": [[3.5, 3.25, 4.0, 3.5]],
        "objective": [[2.5, 1.75, 2.5, 2.5]],
        "band": np.full((1, 4), 3.0),
    }
    figure = make_diagnosed({"ET": values}, {"ET": np.ones((1, 4), dtype=bool)}).plot_triggers()
    assert figure.get_suptitle() == (
        "ET, trial 0: resets 4 (2 by objective, 1 by noise, 1 by both)"
    )


def test_trial_without_resets(result):
    quiet = make_diagnosed({"ET": {"band": np.full((1, 5), 2.0)}})
    figure = quiet.plot_triggers()
    assert figure.get_suptitle() == "ET, trial 0: resets 0"
    assert figure.get_supxlabel() == ""


def test_trigger_picture_refuses(result):
    with pytest.raises(ValueError, match="SW does not reset by a trigger"):
        result.plot_triggers("SW")
    with pytest.raises(ValueError, match=r"GP-UCB does not reset by a trigger.*from ET-GP-UCB"):
        result.plot_triggers("GP-UCB")
    with pytest.raises(KeyError, match="trial"):
        result.plot_triggers(trial=8)
    with pytest.raises(ValueError, match="None does not reset by a trigger"):
        drawn_diagnosis({"A": 1.0}, 2, 5).plot_triggers()


@pytest.mark.parametrize("name", ["plot_triggers", "plot_calibration", "plot_simple_regret"])
def test_study_that_was_not_diagnosed(name):
    with pytest.raises(ValueError, match=r"run_study\(\.\.\., record=\(Diagnosis\(\),\)\)"):
        getattr(make_result({"A": [[1.0]]}), name)()


def test_calibration_picture_draws_the_shares(result, tmp_path):
    figure = result.plot_calibration(tmp_path / "calibration.png")
    assert (tmp_path / "calibration.png").stat().st_size > 10_000
    left, middle, right = figure.axes
    shares = result.calibration()
    for axes, name in ((left, "objective"), (middle, "observation")):
        assert set(texts(axes)) == set(WIDTHS)
        curves = [line for line in axes.lines if len(line.get_xdata()) == len(shares["level"])]
        for line, label in zip(curves, WIDTHS, strict=True):
            np.testing.assert_allclose(line.get_ydata(), shares[name].sel(strategy=label))
    dots = [line for line in left.lines if line.get_marker() == "o"]
    assert [line.get_ydata()[0] for line in dots] == list(shares["played"].values)
    assert [line.get_xdata()[0] for line in dots] == list(shares["played_level"].values)
    by_round = result.calibration_by_round(0.9, block=2)
    np.testing.assert_allclose(
        right.lines[1].get_ydata(), by_round["objective"].sel(strategy="TV-GP-UCB")
    )
    assert "8 trials" in figure.get_supxlabel()
    assert "2 rounds averaged together" in figure.get_supxlabel()


def test_strategies_without_predictions_are_omitted():
    nothing = np.full((3, 4), np.nan)
    result = make_diagnosed(
        {"A": {"mean": np.zeros((3, 4))}, "Random": {"mean": nothing, "sd": nothing}}
    )
    for axes in result.plot_calibration().axes:
        assert texts(axes) == ["A"]


def test_simple_regret_picture(result, tmp_path):
    figure = result.plot_simple_regret(tmp_path / "simple.png")
    assert (tmp_path / "simple.png").stat().st_size > 10_000
    left, right = figure.axes
    for line, label in zip(left.lines, WIDTHS, strict=True):
        expected = result.simple_regret.sel(strategy=label).mean("trial")
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert set(texts(left)) == set(WIDTHS)
    ticks = {tick.get_text(): tick.get_color() for tick in right.get_yticklabels()}
    assert ticks == {name: line.get_color() for name, line in named_curves(left).items()}
    assert {tick.get_text() for tick in right.get_yticklabels()} == set(WIDTHS)


@pytest.mark.parametrize(("trials", "rounds"), [(1, 1), (1, 5), (3, 1)])
@pytest.mark.filterwarnings("error")
def test_smallest_studies_can_be_drawn(trials, rounds, tmp_path):
    result = drawn_diagnosis({"A": 1.0, "ET": 5.0}, trials, rounds, trigger_of="ET")
    names = ("triggers.png", "calibration.png", "simple.png")
    plots = (result.plot_triggers, result.plot_calibration, result.plot_simple_regret)
    triggers, calibration, simple = (plot(path=tmp_path / name) for plot, name in zip(plots, names))
    for name in names:
        assert_written(tmp_path / name)
    shown = int(triggers.get_suptitle().split("trial ")[1].split(":")[0])
    seen = line_named(triggers.axes[0], "observation")
    values = result.data["observation"].sel(strategy="ET", trial=shown)
    np.testing.assert_array_equal(seen.get_ydata(), values)
    assert set(texts(calibration.axes[0])) == {"A", "ET"}
    by_round = result.calibration_by_round(0.9, block=1)["objective"]
    shares = [by_round.sel(strategy=label).values for label in ("A", "ET")]
    drawn = [line.get_ydata() for line in calibration.axes[2].lines[:2]]
    np.testing.assert_allclose(drawn, shares)
    regret = result.simple_regret.mean("trial")
    assert_curves(simple.axes[0], {label: regret.sel(strategy=label) for label in ("A", "ET")})


@pytest.mark.filterwarnings("error")
def test_gaps_can_be_drawn(tmp_path):
    values = {"observation": [[np.nan, 5.0, np.nan]], "band": [[1.0, 1.0, 1.0]]}
    result = make_diagnosed({"ET": values}, {"ET": [[False, True, False]]})
    figure = result.plot_triggers(path=tmp_path / "gaps.png")
    assert_written(tmp_path / "gaps.png")
    above, below = figure.axes
    reset = line_named(above, "reset")
    assert (list(reset.get_xdata()), list(reset.get_ydata())) == ([2], [5.0])
    seen = line_named(above, "observation").get_ydata()
    np.testing.assert_array_equal(seen, [np.nan, 5.0, np.nan])
    low, high = below.get_ylim()
    assert low < -5 < 5 < high  # (5 - 0) / 1
