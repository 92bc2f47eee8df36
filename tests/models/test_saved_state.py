"""The present in a state dict: restored, never turned back, and in no data's way."""

import pytest
import torch
from models.cases import FORGETTINGS, assert_same, build, data, plain, present

from botorch_tv.models import TimeVaryingGP


@pytest.mark.parametrize("transform", [True, False])
@pytest.mark.parametrize("forgetting", ["markov", "markov and weights", "injection"])
def test_the_present_is_restored(forgetting, transform):
    options = {} if transform else {"outcome_transform": None}
    X, Y = data()
    saved = TimeVaryingGP(X, Y, forgetting=FORGETTINGS[forgetting], now=30.0, **options)
    loaded = TimeVaryingGP(X, Y, forgetting=FORGETTINGS[forgetting], **options)
    loaded.posterior(X)
    with torch.no_grad():
        for parameter in saved.covar_module.spatial.parameters():
            parameter.add_(0.3)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.now.item() == 30.0
    test_X = present(saved)
    for noise in (False, True):
        expected = saved.posterior(test_X, observation_noise=noise)
        assert_same(loaded.posterior(test_X, observation_noise=noise), expected, atol=1e-12)
    fewer = TimeVaryingGP(X[:5], Y[:5], forgetting=FORGETTINGS[forgetting], **options)
    fewer.load_state_dict(saved.state_dict())
    assert fewer.now.item() == 30.0


def test_a_present_that_follows_the_data_is_not_saved():
    model = build("weights")
    assert "now" not in model.state_dict()
    other = build("weights", now=50.0)
    other.load_state_dict(model.state_dict())
    assert other.now.item() == 50.0


def test_loading_never_moves_time_back():
    """Parameters of the last round are loaded onto newer data."""
    saved = build("weights", n=12, now=20.0).state_dict()
    X, Y = data(n=30)
    newest = X[-1, -1].item()
    assert newest > 20.0
    more = plain(X, Y, forgetting=FORGETTINGS["weights"])
    more.load_state_dict(saved)
    assert more.now.item() == newest
    again = more.condition_on_observations(X[-1:] + 5.0, Y[-1:])  # and goes on following
    assert again.now.item() == newest + 5.0
    later = build("weights", now=60.0)
    later.load_state_dict(saved)
    assert later.now.item() == 60.0


@pytest.mark.parametrize("m", [1, 2])
def test_a_present_for_each_member_of_a_batch(m):
    now = torch.tensor([30.0, 25.0], dtype=torch.float64)
    saved = build("weights", batch=(2,), m=m, now=now)
    loaded = build("weights", batch=(2,), m=m, now=26.0 + 0 * now)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.now.tolist() == [30.0, 26.0]
    single = build("weights", m=m)
    state = {**single.state_dict(), "now": now}
    with pytest.raises(RuntimeError, match="size mismatch for now"):
        single.load_state_dict(state)


def test_a_state_dict_of_floats():
    saved = build("weights", dtype=torch.float32, now=40.0).state_dict()
    loaded = build("weights")
    loaded.load_state_dict(saved)
    assert loaded.now.dtype == torch.float64
