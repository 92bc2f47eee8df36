import math

import numpy as np
import pytest
import torch
from synthetic_results import make_result

from botorch_tv.acquisition import IGPUCB, AgnosticGPUCB, Fixed, Logarithmic
from botorch_tv.papers import EXPERIMENTS, bogunovic2016, chowdhury2017, deng2022, mauduit, sensors
from botorch_tv.papers.mauduit import EXPERTS
from botorch_tv.papers.recordings import ERA5, STOCKS, TRAFFIC, Recordings
from botorch_tv.simulation import PanelWorld
from botorch_tv.simulation.streams import Stream
from botorch_tv.theory import reset_period

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small records."""
    path = tmp_path_factory.mktemp("records")
    random = np.random.default_rng(0)
    hours = np.cumsum(random.standard_normal((744, 9, 13)), axis=0) * 30 + 28000
    lat, lon = 58 - 1.0 * np.arange(9), -10 + 1.0 * np.arange(13)
    np.savez(path / ERA5, t2m_kelvin_x100=hours.astype(np.uint16), lat=lat, lon=lon)
    speed = random.integers(100, 7000, (2016, 60)).astype(np.int16)
    np.savez(path / TRAFFIC, speed_mph_x100=speed, adjacency=np.eye(60))
    prices = np.exp(np.cumsum(random.standard_normal((900, 4)) * 0.02, axis=0) + 4)
    days = np.datetime64("2000-01-01") + np.arange(900)
    rows = [f"{day},{','.join(map(str, row))}" for day, row in zip(days, prices)]
    import gzip

    with gzip.open(path / STOCKS, "wt") as file:
        file.write("Date,A,B,C,D\n" + "\n".join(rows) + "\n")
    return path


def test_records_in_their_units(folder):
    records = Recordings(folder)
    temperature = records.temperature()
    with np.load(folder / ERA5) as file:
        raw = file["t2m_kelvin_x100"]
        assert np.array_equal(temperature.values, raw.reshape(744, -1) / 100)
        coarse = records.temperature(every=4)
        assert np.array_equal(coarse.values, raw[:, ::4, ::4].reshape(744, -1) / 100)
    assert coarse.coordinates.tolist()[1] == [58.0, -6.0]
    with np.load(folder / TRAFFIC) as file:
        assert np.array_equal(records.traffic().values, file["speed_mph_x100"] / 100)
    assert records.stocks().arms == ("A", "B", "C", "D")


def test_a_missing_record(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"has no {TRAFFIC}; .* omit --data"):
        Recordings(tmp_path).traffic()


def test_temperature(folder):
    case = EXPERIMENTS["b16-fig3-temperature"].cases["temperature"]
    world, strategies = case.stage(data=folder)
    values = Recordings(folder).temperature().values
    chosen = sensors.cells(values.shape[1], 46)
    assert len(set(chosen)) == 46
    train, test = values[:480, chosen], values[480:, chosen]
    assert (world.horizon, len(world.domain), case.trials) == (264, 46, None)
    stream = Stream(0, "start", 44, 4, **CPU)
    assert world.first_arm(stream).tolist() == [44, 45, 0, 1]
    assert world.objective.numpy() == pytest.approx(test - train.mean())  # in kelvin
    variance = np.mean((train - train.mean()) ** 2)
    assert world.model_noise == pytest.approx(0.05 * variance)
    forgetting = strategies["TV-GP-UCB"]
    assert forgetting.width == Logarithmic(c1=0.8, c2=0.4)
    assert forgetting.decay.epsilon == world.epsilon
    period = reset_period(world.epsilon, 264)
    assert strategies["R-GP-UCB"].retention.period == period
    other, given = EXPERIMENTS["et-fig3"].cases["temperature"].stage(data=folder)
    assert other.horizon == 286
    assert other.model_noise == pytest.approx(0.01)  # of standardised readings
    assert given["TV-GP-UCB"].decay.epsilon == 0.03
    assert given["R-GP-UCB"].retention.period == 15


def test_traffic_plays_one_morning(folder):
    values = Recordings(folder).traffic().values
    chosen = sensors.cells(60, 50)
    morning = values[6 * 288 + 72 : 6 * 288 + 72 + 84][:, chosen]  # of the seventh day, from six
    raw = EXPERIMENTS["b16-fig3-traffic"].cases["wednesday"].stage(data=folder)[0]
    usual, players = EXPERIMENTS["b16-fig3-traffic"].cases["wednesday-usual"].stage(data=folder)
    working = (0, 1, 4)  # Thursday, Friday, Monday
    before = [values[day * 288 + 72 : day * 288 + 156][:, chosen] for day in working]
    train = np.concatenate(before)
    assert raw.objective.numpy() == pytest.approx(morning - train.mean())
    assert usual.objective.numpy() == pytest.approx(morning - train.mean(0))
    assert players["GP-UCB"].width == Logarithmic(c1=0.2, c2=0.4)
    rows = np.concatenate([train, morning])
    again = PanelWorld(rows, train=252, center="all", standardize=False, groups=84)
    assert raw.epsilon == again.epsilon


def test_stocks_by_hand(folder):
    world = deng2022.prices(Recordings(folder))
    played = Recordings(folder).stocks().values[-823:]
    scaled = (played - played.mean()) / played.std()
    assert world.objective.numpy() == pytest.approx(scaled)
    K = scaled.T @ scaled / 823
    assert world.kernel.numpy() == pytest.approx(K)
    norms = [math.sqrt(f @ np.linalg.solve(K, f)) for f in scaled]
    assert deng2022.largest_price_norm(world) == pytest.approx(max(norms), rel=1e-6)
    assert deng2022.budget(world) == pytest.approx(np.abs(np.diff(scaled, axis=0)).max(1).sum())
    assert (
        deng2022.largest_price_norm(world) == deng2022.stock_strategies(world)["ET-GP-UCB"].width.B
    )


def test_static_sensors(folder):
    world = chowdhury2017.temperature(Recordings(folder))
    values = Recordings(folder).temperature().values.reshape(31, 24, -1)
    chosen = sensors.cells(values.shape[2], 54)
    train = values[:18].reshape(18 * 24, -1)[:, chosen]
    test = values[18:, 8:10].reshape(26, -1)[:25, chosen]
    scaled = (test - train.mean()) / train.std()
    stream = Stream(0, "world", 0, 25, **CPU)
    played = next(iter(world.rounds(stream))).numpy()
    assert played == pytest.approx(scaled)
    assert world.noise == pytest.approx(0.05)
    K, f = world.kernel.numpy(), scaled
    a = np.linalg.solve(K + world.noise * np.eye(54), f.T)
    B = math.sqrt(np.einsum("ij,ij->j", a, K @ a).max())
    R, own = math.sqrt(world.noise), chowdhury2017.sensor_strategies(world)
    for label, width in (
        ("GP-UCB", AgnosticGPUCB(B=B, delta=0.1, gain=Fixed(1.0))),
        ("IGP-UCB", IGPUCB(B=B, R=R, delta=0.1, gain=Fixed(1.0))),
        ("GP-TS", IGPUCB(B=B, R=R, delta=0.05, gain=Fixed(1.0))),
    ):
        found = own[label].width
        assert pytest.approx(width.B) == found.B
        assert (found.delta, found.gain) == (width.delta, width.gain)


def test_standard_functions_by_hand():
    rosenbrock = EXPERIMENTS["c17-functions"].cases["rosenbrock"]
    x, y = rosenbrock.world(1.0).domain.X.unbind(-1)
    f = -(100 * (y - x**2) ** 2 + (1 - x) ** 2)
    assert len(f) == 200
    assert torch.allclose(rosenbrock.world(1.0).functions[0].values, (f - f.mean()) / f.std())
    assert rosenbrock.noise == pytest.approx(float(f.max() - f.min()) / 100 / float(f.std()))
    hartmann = EXPERIMENTS["c17-functions"].cases["hartmann3"].world(1.0)
    assert hartmann.domain.X.shape == (300, 3)
    assert float(hartmann.functions[0].values.max()) > 1  # a maximum is sought


def test_mauduit_is_fitted(folder, monkeypatch):
    world = mauduit.anomalies(Recordings(folder))
    panel = Recordings(folder).temperature(every=4)
    train = panel.values[:480]
    centred = train - train.mean(0)
    assert np.asarray(world.training) == pytest.approx(centred / centred.std())
    monkeypatch.setattr(mauduit, "LENGTHSCALES", (0.5, 4.0))
    kernel, epsilon = mauduit.fitted(world)
    assert 0 < epsilon < 1
    lat, lon = kernel.lengthscale.squeeze().tolist()
    assert lon / lat == pytest.approx(1 / math.cos(math.radians(54)))
    few = np.asarray(world.training)[:30]
    likelihoods = {}
    for length in (0.5, 4.0):
        K = mauduit._kernel(length)(world.domain.X).to_dense().detach().numpy()
        steps = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
        C = np.kron((1 - epsilon) ** (steps / 2), K) + world.model_noise * np.eye(few.size)
        _, logdet = np.linalg.slogdet(C)
        likelihoods[length] = -0.5 * (few.ravel() @ np.linalg.solve(C, few.ravel()) + logdet)
    assert lat == pytest.approx(max(likelihoods, key=likelihoods.get))
    memory = reset_period(epsilon, 264)
    own = mauduit.strategies(world)
    assert own["WGP-UCB"].inflation.gamma == 1 - 1 / memory
    assert own[EXPERTS[1]].inflation.alpha == 1.0


def test_table_1():
    labels = ("IGP-UCB", "BR-GP-UCB", "SW-GP-UCB", "WGP-UCB", "ET-GP-UCB")
    regret = make_result({label: [[9 - i], [9.5 - 2 * i]] for i, label in enumerate(labels)})
    table = EXPERIMENTS["et-table1"]
    outcome = table.score(dict.fromkeys(table.cases, regret))
    row = outcome.table[outcome.table["strategy"] == "ET-GP-UCB"].iloc[0]
    assert (row["case"], row["paper"], row["here"]) == ("abrupt", 55.8, (5 + 1.5) / 2)
    last = outcome.table[outcome.table["strategy"] == "ET-GP-UCB"]
    assert last.set_index("case").loc["slow-100", "paper"] == 86.3
    assert outcome.holds is False


def test_periods_are_judged_by_mean_and_spread():
    random = np.random.default_rng(1)
    base = random.standard_normal((200, 1))
    regret = {f"N = {n}": 20 + base for n in bogunovic2016.PERIODS}
    regret |= {"N = 5": 30 + base, "N = 200": 20 + 1.5 * base}
    regret["GP-UCB"] = regret["N = 200"]
    score = EXPERIMENTS["b16-fig2d"].score
    outcome = score({"epsilon-0.01": make_result(regret)})
    assert outcome.holds is True
    ratio = outcome.table.iloc[-2]
    assert ratio["difference"] == pytest.approx(1.5)
    assert ratio["t_ratio"] == pytest.approx(math.log(1.5) * math.sqrt(199))
    assert (
        score({"epsilon-0.01": make_result(regret | {"N = 200": 20 + 1.1 * base})}).holds is False
    )
    assert score({"epsilon-0.01": make_result(regret | {"N = 100": 21 + base})}).holds is False


@pytest.mark.parametrize(("static", "holds"), [(1.9, True), (1.7, False)])
def test_static_strategy_must_end_barely_better_than_chance(static, holds):
    flat = np.ones((3, 60))
    jitter = np.random.default_rng(0).standard_normal((3, 60)) * 1e-3
    levels = {"TV-GP-UCB": 1.0, "R-GP-UCB": 1.5, "GP-UCB": static, "Random": 2.0}
    result = make_result({label: level * flat + jitter for label, level in levels.items()})
    outcome = EXPERIMENTS["b16-fig3-temperature"].score({"temperature": result})
    assert outcome.holds is holds
