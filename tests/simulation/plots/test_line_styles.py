import itertools

import pytest

from botorch_tv.simulation.plots.curves import line_styles
from botorch_tv.simulation.rivals import RIVALS
from botorch_tv.strategies.presets import PRESETS

ALGORITHMS = [preset.names[0] for preset in PRESETS.values()]


def test_styles_of_presets_are_fixed():
    alone = {name: line_styles([name])[name] for name in ALGORITHMS}
    assert len(set(alone.values())) == len(ALGORITHMS)
    assert line_styles(ALGORITHMS) == alone
    for few in itertools.combinations(ALGORITHMS, 2):
        assert line_styles(["own", *few, "0.03"]).items() >= {n: alone[n] for n in few}.items()


@pytest.mark.parametrize("code", RIVALS)
def test_all_names_of_a_preset_have_its_style(code):
    label, make, _ = RIVALS[code]
    wanted = line_styles(ALGORITHMS)[label]
    preset = getattr(make, "func", make).__name__
    for name in (code, code.lower(), label, preset):
        assert line_styles([name])[name] == wanted


@pytest.mark.parametrize(
    "labels",
    [
        ("TV-GP-UCB", "R-GP-UCB", "GP-UCB", "ET-GP-UCB", "UI-GP-UCB", "SW-GP-UCB", "WGP-UCB"),
        ("ET-GP-UCB", "Random", "IGP-UCB", "SW-GP-UCB", "WGP-UCB", "BR-GP-UCB"),
        ("GP-UCB", "GP-EI", "IGP-UCB", "GP-TS", "GP-PI"),
        ("TV-GP-UCB", "R-GP-UCB", "GP-UCB", "ET-GP-UCB", "UI-TVBO", "Random"),
        ("TV-GP-UCB", "R-GP-UCB", "GP-UCB", "SW-GP-UCB", "WGP-UCB", "SparQ", "W-SparQ", "random"),
        ("GP", "ET", "TV", "Adaptive"),
    ],
)
def test_colours_differ_in_the_papers_figures(labels):
    assert len({color for color, _ in line_styles(labels).values()}) == len(labels)


def test_other_labels_have_distinct_colours_in_any_order():
    labels = ["GP", "0.03", "0.003", "trigger", "own", "ET"]
    styles = line_styles(labels)
    assert len({color for color, _ in styles.values()}) == len(labels)
    for order in itertools.permutations(labels):
        found = line_styles(order)
        assert list(found) == list(order)
        assert found == styles
    assert line_styles(["own"])["own"][1] == "solid"
