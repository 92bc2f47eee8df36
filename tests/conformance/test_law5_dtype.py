"""Law 5: outputs have the state's dtype and device; the same run twice makes the same choices."""

import warnings
from typing import Any

import pytest
import torch
from conformance.presets import BESIDE, RECURSIONS, Beside, Preset, each_pair, one_per_path
from conformance.rounds import Setting, make_world
from torch import Tensor

from botorch_tv.strategies import Suggestion, gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=14)
TRIALS = 2
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def outputs(preset: Preset, engine: str, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """All outputs of a strategy after some rounds."""
    strategy = preset.by(SETTING.module(), SETTING.noise, engine)
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,), dtype=dtype, device=device)
    handed: dict[str, Any] = {}
    for t in range(SETTING.rounds):
        generator = torch.Generator(device).manual_seed(t)
        suggestion = strategy.ask(state, generator=generator)
        y = world.observe(t, suggestion.index, dtype)
        ok = torch.tensor([True, t % 5 != 2], device=device)
        noise = torch.tensor([0.02, 0.05 + 0.01 * t], dtype=dtype, device=device)
        own = {"noise": noise} if preset.takes_noise else {}
        state, info = strategy.tell(state, suggestion, y, ok=ok, **own)
    handed |= {f"ask.{name}": one for name, one in numbers(suggestion).items()}
    handed |= {f"info.{name}": getattr(info, name) for name in info._fields}
    at = strategy.suggestion_at(state, suggestion.X, now=suggestion.time + 1.5)
    handed |= {f"at.{name}": one for name, one in numbers(at).items()}
    handed["recommend"] = strategy.recommend(state)
    posterior = strategy.posterior(state, SETTING.domain.X.to(device=device, dtype=dtype))
    handed["posterior.mean"], handed["posterior.variance"] = posterior.mean, posterior.variance
    return handed


def numbers(suggestion: Suggestion) -> dict[str, Tensor]:
    """Its tensors: all fields but the strategy that made it."""
    parts = suggestion._asdict()
    return {name: one for name, one in parts.items() if isinstance(one, Tensor)}


@one_per_path
@pytest.mark.parametrize("device", DEVICES)
@each_pair(0, beside=BESIDE)
def test_every_output_has_the_dtype_and_device_of_the_state(
    preset: Preset, engine: str, device: str
) -> None:
    """And in float64 a second run makes the same choices, its numbers equal up to rounding."""
    runs = []
    if isinstance(preset, Beside):
        with pytest.raises(ValueError, match="float64"):
            outputs(preset, engine, torch.float32, device)
    single = torch.float64 if isinstance(preset, Beside) else torch.float32
    for dtype in (single, torch.float64, torch.float64):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            runs.append(outputs(preset, engine, dtype, device))
    assert_kinds(runs[0], single, device)
    assert_kinds(runs[1], torch.float64, device)
    for name, value in runs[1].items():
        torch.testing.assert_close(value, runs[2][name], rtol=0, atol=1e-10, msg=name)


def assert_kinds(handed: dict[str, Tensor], dtype: torch.dtype, device: str) -> None:
    for name, value in handed.items():
        assert value.device.type == device, name
        if name.endswith(("time",)):
            assert value.dtype == torch.float64, name  # seconds since 1970 need it
        elif name.endswith(("index", "side_queries")):
            assert value.dtype == torch.int64, name
        elif name.endswith("reset"):
            assert value.dtype == torch.bool, name
        else:
            assert value.dtype == dtype, name
            assert torch.isfinite(value).all(), name


def test_posterior_variance_stays_nonnegative_in_float32() -> None:
    """The variance after two hundred observations of an arm is of rounding size, never negative."""
    for engine in RECURSIONS:
        strategy = gp_ucb(kernel=SETTING.module(), noise=1e-4, inference=engine)
        state = strategy.init(SETTING.domain, dtype=torch.float32)
        X = SETTING.domain.X.float()
        for _ in range(200):
            suggestion = strategy.suggestion_at(state, X[12])
            assert torch.isfinite(suggestion.sd)
            state, _ = strategy.tell(state, suggestion, torch.tensor(0.5))
        variance = strategy.posterior(state, X).variance
        assert (variance >= 0).all()
        assert torch.isfinite(strategy.ask(state).sd)
