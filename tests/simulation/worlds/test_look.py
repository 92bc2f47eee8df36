from collections.abc import Callable

import numpy as np
import pytest

from botorch_tv.simulation import (
    AbruptWorld,
    DriftWorld,
    GridWorld,
    MarkovWorld,
    PanelWorld,
    RKHSFunctions,
    SineWorld,
    StaticWorld,
    run_study,
)
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, random_search

KERNEL = unit_kernel("se", 0.2)
GRID = Grid.regular(9, 1, bounds=[(-1.0, 1.0)])
DRAWN = {"functions": RKHSFunctions(KERNEL), "noise": 0.1}
WORLDS: dict[str, Callable[[], GridWorld]] = {
    "markov": lambda: MarkovWorld(GRID, kernel=KERNEL, epsilon=0.2, noise=0.1),
    "abrupt": lambda: AbruptWorld(GRID, changes=(3, 5), **DRAWN),
    "drift": lambda: DriftWorld(GRID, horizon=6, **DRAWN),
    "static": lambda: StaticWorld(GRID, **DRAWN),
    "sine": lambda: SineWorld(GRID, kernel=KERNEL, centers=4, noise=0.1),
    "panel": lambda: PanelWorld(make_panel(rounds=30).values, train=20),
}


@pytest.mark.parametrize("name", WORLDS)
def test_look_is_the_objective_of_a_study(name: str) -> None:
    world = WORLDS[name]()
    shown = world.look(rounds=6, trials=66, seed=5)
    assert shown.dims == ("trial", "round", "arm")
    assert shown.shape == (66, 6, len(world.domain))
    player = random_search(kernel=unit_kernel("se", 0.2), noise=0.1)
    if name == "panel":
        player = random_search(kernel=world.kernel, noise=0.1)  # type: ignore[attr-defined]
    result = run_study(world, {"R": player}, trials=66, horizon=6, seed=5, chunk=20, progress=False)
    chosen = shown.isel(arm=result.data["index"].sel(strategy="R"))
    np.testing.assert_allclose(
        (shown.max("arm") - chosen).transpose("trial", "round"),
        result.regret.sel(strategy="R"),
        rtol=0,
        atol=1e-12,
    )
    assert float(result.regret.mean()) > 0.01
    np.testing.assert_array_equal(shown["x1"], world.domain.X[:, 0])
    np.testing.assert_array_equal(shown["round"], np.arange(1, 7))


def test_fewer_trials_and_rounds() -> None:
    world = WORLDS["markov"]()
    whole, part = world.look(8, trials=5, seed=1), world.look(3, seed=1)
    np.testing.assert_allclose(part, whole[:1, :3], rtol=0, atol=1e-12)  # products round
    assert not np.array_equal(part, world.look(3, seed=2))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 3, "trials": 0}, "trials is 0"),
        ({"rounds": 3, "seed": -1}, "seed is -1"),
        ({"rounds": 7}, r"rounds is 7, but DriftWorld\(.* has 6; give rounds=6 or less"),
    ],
)
def test_bad_input(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"DriftWorld.look: {message}"):
        WORLDS["drift"]().look(**sizes)
