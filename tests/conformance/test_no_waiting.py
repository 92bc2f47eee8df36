"""No round waits for the device: a GPU that has to answer before it is told more stands idle.

Rounds are played on the meta device, whose tensors hold no numbers: whatever asks for one fails.
It is no CPU, so the code takes the branches of a GPU. Where there is a GPU the same rounds are
played on it, with PyTorch raising an error at every wait.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from conformance.presets import BY_NAME, PRESETS, RECURSIONS, Preset, each_pair
from conformance.rounds import Setting
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_tv.strategies import gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=15)
TRIALS = 3
NOWHERE = torch.device("meta")

READS = {
    "_local_scalar_dense",
    "is_nonzero",
    "item",
    "nonzero",
    "equal",
    "masked_select",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "_linalg_check_errors",  # of torch.linalg.cholesky and others without _ex
    "_linalg_eigh",
    "linalg_eig",
    "_linalg_svd",
}
"""Operations that give the host a number, or a shape that depends on one."""


class Waits(Exception):
    """Something asked the device for an answer."""


class NoWaiting(TorchDispatchMode):
    """Refuses operations that wait for the device, on tensors that are on one.

    Args:
        numbers: How often a single number may be read; it is always 1.
    """

    def __init__(self, numbers: int = 0) -> None:
        super().__init__()
        self.numbers = numbers

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [one for one in tensors_in([args, kwargs]) if one.device.type == "meta"]
        name = operation._schema.name.removeprefix("aten::")
        if given and name == "_local_scalar_dense" and self.numbers > 0:
            self.numbers -= 1
            return 1
        if given and name in READS:
            raise Waits(str(operation))
        if given and name.startswith("index_put") and any(one.dtype == torch.bool for one in given):
            raise Waits(f"{operation} with a mask counts its true entries")
        result = operation(*args, **kwargs)
        if given and any(one.device.type == "cpu" for one in tensors_in(result)):
            raise Waits(f"{operation} copies to the host")
        return result


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def moved(value: Any, move: Callable[[Tensor], Tensor], done: dict[int, Any]) -> Any:
    """A copy in which every tensor is moved and every device is the other one."""
    if id(value) in done:
        return done[id(value)][1]
    if isinstance(value, Tensor):
        made = move(value)
    elif isinstance(value, torch.device):
        made = NOWHERE
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        made = type(value)(*(moved(part, move, done) for part in value))
    elif isinstance(value, (list, tuple)):
        made = type(value)(moved(part, move, done) for part in value)
    elif isinstance(value, dict):
        made = {key: moved(part, move, done) for key, part in value.items()}
    elif type(value).__module__.startswith("botorch_tv") and not isinstance(value, type):
        made = copy.copy(value)
        names = list(getattr(value, "__dict__", {}))
        names += [name for one in type(value).__mro__ for name in getattr(one, "__slots__", ())]
        for name in names:
            if hasattr(value, name):
                object.__setattr__(made, name, moved(getattr(value, name), move, done))
    else:
        made = value
    done[id(value)] = (value, made)  # the value too, so that its id is not used again
    return made


class Draws:
    """Random numbers on the device; their values do not matter."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def normal(self, *shape: int) -> Tensor:
        return torch.zeros(TRIALS, *shape, dtype=torch.float64, device=self.device)

    uniform = normal


def emptied(value: Any) -> Any:
    """The value with tensors that hold no numbers."""

    def move(tensor: Tensor) -> Tensor:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=NOWHERE
        )

    return moved(value, move, {})


def play(strategy: Any, state: Any, rounds: int = SETTING.rounds) -> Any:
    """Rounds, some with failures and some with variances of their own."""
    device = state.time.device
    y = torch.zeros(TRIALS, dtype=torch.float64, device=device)
    good = torch.ones(TRIALS, dtype=torch.bool, device=device)
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=Draws(device))
        assert suggestion.index.device == device
        extra: dict[str, Tensor] = {}
        if t % 3 == 1:
            extra["ok"] = good
        if t % 4 == 2:
            extra["noise"] = y + 0.1
        state, info = strategy.tell(state, suggestion, y, check=False, consume=True, **extra)
        assert info.reset.device == device
    return state


@each_pair(1)
def test_rounds_ask_the_device_for_nothing(
    preset: Preset, engine: str, request: pytest.FixtureRequest
) -> None:
    """The first two rounds, and those around resets and the first deletion from a window."""
    if preset.consults:
        pytest.skip("drawing points for an expert looks twice how many there are, to save work")
    if engine == "exact" and preset.book(1.0).get("exploration") == "thompson":
        # The sample takes eigenvectors, and PyTorch checks those on the host.
        request.applymarker(pytest.mark.xfail(raises=Waits, strict=True))
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for before in (0, 10):
        state = play(strategy, state, before)
        nowhere = emptied(state)
        with NoWaiting():
            nowhere = play(strategy, nowhere, 5 if before else 2)
        assert nowhere.time.device == NOWHERE
    assert nowhere.told == SETTING.rounds


@pytest.mark.parametrize("name", ["GP-UCB", "ET-GP-UCB"])
def test_one_number_is_read_every_sixteen_rounds(name: str) -> None:
    """That of distinct arms in use, so that memory stays small."""
    strategy = replace(BY_NAME[name].strategy(SETTING.module(), 0.02), inference="auto")
    state = emptied(strategy.init(SETTING.domain, batch_shape=(TRIALS,)))
    guard = NoWaiting(numbers=1)
    with guard:
        play(strategy, state, 15)
        assert guard.numbers == 1
        play(strategy, state, 30)
    assert guard.numbers == 0


def test_the_guard_notices() -> None:
    """Each way to wait is seen; else the test above would prove nothing."""
    x = torch.ones(3, 3, device=NOWHERE)
    ways: list[Callable[[], Any]] = [
        lambda: bool((x > 0).all()),
        lambda: float(x.sum()),
        lambda: x.sum().item(),
        lambda: x.cpu(),
        lambda: x.tolist(),
        lambda: (x > 0).nonzero(),
        lambda: x[x > 0],
        lambda: x.__setitem__(x > 0, torch.ones(9, device=NOWHERE)),
        lambda: torch.equal(x, x),
        lambda: torch.linalg.cholesky(x),
        lambda: torch.linalg.eigh(x),
        lambda: torch.unique(x),
    ]
    for number, way in enumerate(ways):
        try:
            with NoWaiting():
                way()
        except (Waits, RuntimeError, NotImplementedError):
            continue
        pytest.fail(f"way {number} went unnoticed")
    with NoWaiting():
        torch.linalg.cholesky_ex(x)  # allowed: nobody looks at info
        x.sum().add(1.0).clamp_min(0.0)


@pytest.mark.parametrize("engine", RECURSIONS)
def test_looking_at_the_values_is_noticed(engine: str) -> None:
    """``check=True`` reads the observation: the guard sees that in the library's own code."""
    strategy = gp_ucb(kernel=SETTING.module(), noise=0.02, inference=engine)
    state = emptied(strategy.init(SETTING.domain, batch_shape=(TRIALS,)))
    y = torch.zeros(TRIALS, dtype=torch.float64, device=NOWHERE)
    with NoWaiting(), pytest.raises((Waits, RuntimeError)):
        strategy.tell(state, strategy.ask(state), y)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("engine", RECURSIONS)
def test_on_a_real_device(engine: str) -> None:
    for preset in (one for one in PRESETS if not one.consults):
        strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
        if engine == "exact" and strategy.exploration.random:
            continue
        state = strategy.init(SETTING.domain, batch_shape=(TRIALS,), device="cuda")
        play(strategy, state)  # first, so that libraries are loaded
        state = strategy.init_like(state, (TRIALS,))
        torch.cuda.set_sync_debug_mode("error")
        try:
            play(strategy, state, 15)
        finally:
            torch.cuda.set_sync_debug_mode("default")
