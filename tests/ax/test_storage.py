"""An experiment saved in the evening goes on in the morning."""

import json

import pytest

pytest.importorskip("ax.api.client")

from ax.api.client import Client
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json

from botorch_tv import acquisition as a
from botorch_tv import forgetting as f
from botorch_tv.ax.strategy import VALUES, label
from botorch_tv.models import TimeVaryingGP

RECORDS = [
    f.Markov(0.03),
    f.PeriodicMarkov(0.01, 24.0, 1.0),
    f.Wiener(0.1),
    f.ExponentialWeights(0.9),
    f.UncertaintyInjection(1.5, kappa=0.1),
    f.Static(),
    a.AgnosticGPUCB(B=1.0, delta=0.1),
    a.BayesEventTriggered(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.BayesResetting(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.BayesTV(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.Constant(4.0),
    a.Heteroscedastic(B=1.0, delta=0.1),
    a.IGPUCB(B=1.0, R=0.1, delta=0.1, gain=a.ClosedForm("matern", nu=2.5)),
    a.Logarithmic(c1=0.4),
    a.WGPUCB(B=1.0, R=0.1, noise=0.01, delta=0.1),
    a.ClosedForm("se"),
    a.DoublyWeighted(),
    a.Greedy((0.0, 1.0)),
    a.Realized(),
]


def test_every_record_comes_back():
    assert {type(record) for record in RECORDS} <= set(VALUES)
    for record in RECORDS:
        back = object_from_json(json.loads(json.dumps(object_to_json(record))))
        if isinstance(record, a.Greedy):
            back = a.Greedy(tuple(back.values))  # JSON has lists alone
        assert back == record


@pytest.mark.parametrize(
    ("forgetting", "width"),
    [(f.Markov(0.05), None), ((f.Wiener(0.1), f.ExponentialWeights(0.9)), a.Logarithmic())],
    ids=["qLogNEI", "UCB"],
)
def test_a_saved_client_goes_on(
    experiment, ask, tell, model_of, acquisition_of, tmp_path, forgetting, width
):
    rows = [(t, x, -(x**2)) for t, x in [(0, -0.5), (1, 0.1), (4, 0.9)]]
    client = tell(experiment(objective="-y", forgetting=forgetting, width=width), rows)
    index, _ = ask(client, 6.0)  # a trial runs when the program ends
    path = str(tmp_path / "experiment.json")
    client.save_to_json_file(path)
    again = Client.load_from_json_file(path)
    for item in (client, again):
        item.complete_trial(index, {"y": -0.3})
    (_, here), (_, there) = ask(client, 8.0), ask(again, 8.0)
    assert there["x"] == pytest.approx(here["x"], abs=0.05)
    assert there["t"] == 8.0
    model = model_of(again)
    assert type(model) is TimeVaryingGP
    assert model.now == 8.0
    assert type(acquisition_of(again)) is type(acquisition_of(client))
    assert {type(m) for m in model.modules()} == {type(m) for m in model_of(client).modules()}


def test_names_are_our_own():
    assert all(label(kind).startswith("botorch_tv.") for kind in VALUES)
