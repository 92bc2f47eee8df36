"""Constants of a domain are converted to a state's dtype and device once, not in every round.

A box cannot be searched on a device without numbers, so float32 stands in for the host: with a
domain in float32 and a state in float64, no round may convert from one dtype to the other.
"""

from typing import Any

import pytest
import torch
from conformance.presets import BY_NAME
from conformance.rounds import Setting
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_tv.strategies import Box, DiscreteSearch, MultiStart
from botorch_tv.strategies.domains import Domain

ARMS = Setting(points=4, kernel="se", noise=0.02, rounds=1).domain.X.float()
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float32)
DOMAINS = {
    "ascent": Box(CORNERS, search=MultiStart(raw_samples=16, evaluations=4)),
    "candidates": Box(CORNERS, search=DiscreteSearch(ARMS)),
}


class NoConversion(TorchDispatchMode):
    """Refuses to convert float32 to float64."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: dict | None = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        if operation._schema.name == "aten::_to_copy" and result.dtype == torch.float64:
            assert args[0].dtype != torch.float32, f"{tuple(args[0].shape)} is converted"
        return result


@pytest.fixture(autouse=True)
def single_precision() -> Any:
    """Tensors made of numbers without a dtype are float32, too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", ["TV-GP-UCB", "Random", "GP-EI"])
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_no_round_converts_constants(domain: Domain, name: str) -> None:
    setting = Setting(points=4, kernel="se", noise=0.02, rounds=1)
    strategy = BY_NAME[name].strategy(setting.module(), setting.noise)
    for guard in (torch.no_grad(), NoConversion()):  # the first run converts
        state = strategy.init(domain, batch_shape=(2,), dtype=torch.float64)
        with guard:
            for t in range(3):
                suggestion = strategy.ask(state)
                y = suggestion.X.sum(-1) - t
                state, _ = strategy.tell(state, suggestion, y)
            strategy.recommend(state)
            strategy.posterior(state, suggestion.X.unsqueeze(-2), observation_noise=True)


def test_the_guard_notices() -> None:
    with NoConversion(), pytest.raises(AssertionError, match="converted"):
        CORNERS.to(torch.float64)
    with NoConversion(), pytest.raises(AssertionError, match="converted"):
        torch.as_tensor(0.5).to(torch.float64)
