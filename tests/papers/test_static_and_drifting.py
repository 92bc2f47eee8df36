import itertools
import math

import numpy as np
import pytest
import torch
from synthetic_results import make_result

from botorch_tv.acquisition import IGPUCB, AgnosticGPUCB, Heteroscedastic, Logarithmic
from botorch_tv.acquisition.widths import ClosedForm
from botorch_tv.experts import EveryRound, Refresh, Windows
from botorch_tv.papers import EXPERIMENTS, deng2022, mauduit, worlds
from botorch_tv.simulation import AbruptWorld, FixedFunctions, StaticWorld
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import FunctionDistribution, FunctionDraw
from botorch_tv.strategies import Grid

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}


class WithNorms(FunctionDistribution):
    """Trial number i draws the function (i, 2 i, 0) of squared norm i."""

    def draw(self, domain: Grid, stream: Stream) -> FunctionDraw:
        number = torch.arange(stream.first, stream.first + stream.trials, dtype=torch.float64)
        return FunctionDraw(torch.stack([number, 2 * number, 0 * number], -1), squared_norm=number)


def test_surveys_by_hand():
    three = Grid.regular(3, 1)
    world = StaticWorld(three, functions=WithNorms(), noise=0.1)
    assert worlds.largest_norm(world, 10) == 3  # of norms √0, ..., √9
    assert worlds.mean_range(world, 10) == pytest.approx(9)  # of ranges 0, 2, ..., 18
    functions = torch.tensor([[0.0, 0, 0], [1, -4, 2], [1, 1, 1]], dtype=torch.float64)
    jumps = AbruptWorld(
        three, functions=[FixedFunctions(f) for f in functions], changes=(3, 5), noise=0.1
    )
    assert worlds.variation(jumps, 2, horizon=4) == 4  # |-4 - 0|, no second change yet
    assert worlds.variation(jumps, 2, horizon=5) == 9  # + |1 + 4|


def test_forgetting_by_hand():
    # γ̇ = ln² 500 = 38.621, to the power ¼: 2.49292. (500 / 5)^½ = 10.
    period, gamma = deng2022.forgetting(5.0, horizon=500)
    assert period == 25
    assert gamma == pytest.approx(1 - 1 / 24.9292, abs=1e-6)
    period, gamma = deng2022.forgetting(1e9, horizon=500)
    assert period == 1
    assert 0 < gamma < 1e-12


@pytest.mark.parametrize("name", ["w22-abrupt", "w22-slow"])
def test_w22_widths_and_memory(name):
    paper = EXPERIMENTS[name]
    for label, noise in (("noise-0.1", 0.1), ("noise-1", 1.0)):
        case = paper.cases[label]
        world, strategies = case.world(noise), case.strategies(noise)
        stream = Stream(0, "world", 0, paper.trials, **CPU)
        drawn = world.draw(stream)
        B = max(float(f.squared_norm.max()) for f in drawn) ** 0.5
        for label_of in ("IGP-UCB", "BR-GP-UCB", "SW-GP-UCB", "ET-GP-UCB"):
            assert strategies[label_of].width == IGPUCB(B=B, R=math.sqrt(noise), delta=0.1)
        weighted = strategies["WGP-UCB"].width
        assert (weighted.B, weighted.R, weighted.noise) == (B, math.sqrt(noise), noise)
        steps = [(b.values - a.values).abs().amax(-1) for a, b in itertools.pairwise(drawn)]
        budget = float(sum(steps).mean())
        if name == "w22-slow":
            budget *= 499 / 500  # from f_1 to f_500, not from f4
        memory = math.log(500) ** 0.5 * (500 / budget) ** 0.5
        assert strategies["BR-GP-UCB"].retention.period == math.ceil(memory)
        assert strategies["SW-GP-UCB"].retention.window == math.ceil(memory)
        assert strategies["WGP-UCB"].inflation.gamma == pytest.approx(1 - 1 / memory)
        assert strategies["ET-GP-UCB"].retention.delta == 0.1


def test_m_synthetic_settings():
    cases = EXPERIMENTS["m-synthetic"].cases
    assert len(mauduit.sine_world(0.01).domain) == 401
    for name, width in (
        ("logarithmic", Logarithmic(c1=0.8, c2=4.0)),
        ("theory", Heteroscedastic(B=5.0, delta=0.1)),
    ):
        strategies = cases[name].strategies(0.01)
        assert strategies.pop("random").draws
        assert {strategy.width for strategy in strategies.values()} == {width}
        assert strategies["R-GP-UCB"].retention.period == 2
        assert strategies["SW-GP-UCB"].retention.window == 2
        assert strategies["WGP-UCB"].inflation.gamma == 0.488
        assert strategies["TV-GP-UCB"].decay.epsilon == 0.087
        sparq, w_sparq = (strategies[label] for label in mauduit.EXPERTS)
        assert sparq.refresh == Refresh(EveryRound(), 6.0, "exact")
        assert w_sparq.refresh == Refresh(Windows(2.0, 0.25), 6.0, "exact")
        assert w_sparq.inflation.alpha == 2.0
    K = mauduit.line_kernel()(torch.tensor([[0.0], [6.0]], dtype=torch.float64)).to_dense()
    assert K[0].tolist() == pytest.approx([0.5, 0.5 * math.exp(-2)])


def test_m_synthetic_counts_side_queries():
    labels = [*mauduit.EXPERTS, *mauduit._PURE]
    regret = {label: [[rank, rank + 0.1], [rank, rank]] for rank, label in enumerate(labels)}
    results = {name: make_result(regret) for name in EXPERIMENTS["m-synthetic"].cases}
    for study in results.values():
        asked = study.data["side_queries"].transpose("strategy", "trial", "round").values
        asked[0], asked[1] = [[3, 4], [4, 5]], [[2, 0], [1, 0]]  # windows at 1, 3, 5, ...
    outcome = mauduit._judge(results)
    row = outcome.table[outcome.table["case"] == "logarithmic"].iloc[-1]
    assert (row["sparq"], row["w_sparq"], row["share"]) == (8.0, 1.5, 1.5 / 8)
    assert (row["windows"], row["windows_of_theory"], row["holds"]) == (1, 1, True)
    assert "asks 19% of the 8 side queries" in outcome.verdict
    results["theory"].data["side_queries"].values[1, 0, 1] = 1  # one round too many
    assert not mauduit._judge(results).table.iloc[-1]["holds"]


@pytest.mark.parametrize("name", list(EXPERIMENTS["c17"].cases))
def test_c17_settings_from_the_functions(name):
    cases = EXPERIMENTS["c17"].cases
    noise = cases[name].noise
    world, strategies = cases[name].world(noise), cases[name].strategies(noise)
    stream = Stream(0, "world", 0, 25, **CPU)
    f = next(iter(world.rounds(stream))).numpy()
    assert f.shape == (25, 100)
    assert noise == pytest.approx(0.01 * np.ptp(f, axis=1).mean())
    assert world.noise == noise
    # Draws from the process have the bound of the smoothed draws.
    twin = name.replace("-gp", "-rkhs")
    a = cases[twin].world(1.0).draw(Stream(0, "world", 0, 25, **CPU))[0].weights.numpy()
    kernel = cases[twin].world(1.0).functions[0].kernel
    K = kernel(world.domain.X).to_dense().detach().numpy()
    B = math.sqrt(max(row @ K @ row for row in a))
    gain = ClosedForm("se") if name.startswith("se") else ClosedForm("matern", nu=2.5)
    R = math.sqrt(noise)
    expected = {
        "GP-UCB": AgnosticGPUCB(B=B, delta=0.1, gain=gain),
        "IGP-UCB": IGPUCB(B=B, R=R, delta=0.1, gain=gain),
        "GP-TS": IGPUCB(B=B, R=R, delta=0.05, gain=gain),
    }
    for label, width in expected.items():
        own = strategies[label].width
        assert type(own) is type(width)
        assert own.gain == gain
        assert own.delta == width.delta
        assert pytest.approx(B, rel=1e-6) == own.B
        assert getattr(own, "R", R) == pytest.approx(R)
    assert strategies["GP-TS"].exploration.samples
