"""No round waits for the device: a GPU is idle while the host waits for its answer.

The host waits when it reads from the device or copies to it. The rounds run on the meta device,
whose tensors hold no numbers: reading a number fails. The code takes the branches of a GPU there,
and the domain stays on the CPU, as it does for users. With a GPU the same rounds run on it, and
PyTorch raises an error at every wait.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from conformance.presets import (
    BY_NAME,
    OTHERS,
    PRESETS,
    RECURSIONS,
    Preset,
    each_pair,
)
from conformance.rounds import Setting
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import GPStrategy, adaptive_gp_ucb, listing
from botorch_tv.strategies.domains import Domain

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
"""Operations that return a number to the host, or a shape that depends on a number."""


EIGENVECTORS = frozenset({"_linalg_eigh", "_linalg_check_errors"})
"""Waits of a joint sample: PyTorch checks eigenvectors on the host."""

COPIES = {"_to_copy", "copy_"}
"""Operations that may bring numbers from the host to the device."""

MAKES = {torch.tensor, torch.as_tensor, Tensor.new_tensor}
"""Functions that make tensors of Python numbers, on the host at first."""

INDEXES = {Tensor.__getitem__, Tensor.__setitem__}


class Waits(Exception):
    """The host reads from the device or copies numbers to it."""


class NoNumbers(TorchFunctionMode):
    """Refuses tensors of Python numbers on a device, which PyTorch copies without dispatch."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        if function in MAKES and on_device(result) and not isinstance(args[-1], Tensor):
            raise Waits(f"{function.__name__} of Python numbers copies them to the device")
        if function in INDEXES and on_device(args[:1]):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if any(isinstance(one, list) for one in index):
                raise Waits("a list as index is copied to the device")
        return result


class NoWaiting(TorchDispatchMode):
    """Refuses operations that wait for the device of their tensors.

    Args:
        numbers: How often a single number may be read; its value is always 1.
        allowed: Operations that may wait.

    Attributes:
        started: Number of operations started on the device.
    """

    def __init__(self, numbers: int = 0, allowed: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.numbers, self.allowed = numbers, allowed
        self.started = 0
        self.no_numbers = NoNumbers()

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tensors = tensors_in([args, kwargs])
        given = on_device(tensors)
        # Single numbers of the host are arguments of the operation, except in copies.
        apart = [tensor for tensor in tensors if tensor.device.type == "cpu"]
        name = operation._schema.name.removeprefix("aten::")
        if given and any(one.dim() > 0 or name in COPIES for one in apart):
            raise Waits(f"{operation} of tensors on the device and on the host")
        if given and name == "_local_scalar_dense" and self.numbers > 0:
            self.numbers -= 1
            return 1
        if given and name in READS - self.allowed:
            raise Waits(str(operation))
        if given and name.startswith("index_put") and any(one.dtype == torch.bool for one in given):
            raise Waits(f"{operation} with a mask counts its true entries")
        result = operation(*args, **kwargs)
        makes_room = operation.is_view or name.startswith(("empty", "new_empty"))
        self.started += not makes_room and bool(on_device(result))
        if given and any(one.device.type == "cpu" for one in tensors_in(result)):
            raise Waits(f"{operation} copies to the host")
        if name in COPIES and apart and on_device(result):
            raise Waits(f"{operation} copies to the device")
        return result

    def __enter__(self) -> "NoWaiting":
        self.no_numbers.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.no_numbers.__exit__(*error)


def on_device(value: Any) -> list[Tensor]:
    return [one for one in tensors_in(value) if one.device.type == "meta"]


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def moved(value: Any, move: Callable[[Tensor], Tensor], done: dict[int, Any]) -> Any:
    """A copy with every tensor moved and every device replaced."""
    if id(value) in done:
        return done[id(value)][1]
    if isinstance(value, Tensor):
        made = move(value)
    elif isinstance(value, Domain):
        made = value
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
    done[id(value)] = (value, made)  # retains the value, so that its id stays unique
    return made


class Draws:
    """Random numbers on the device, all 0."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def normal(self, *shape: int) -> Tensor:
        return torch.zeros(TRIALS, *shape, dtype=torch.float64, device=self.device)

    uniform = normal


def emptied(value: Any) -> Any:
    """The state on the meta device."""

    def move(tensor: Tensor) -> Tensor:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=NOWHERE
        )

    made = moved(value, move, {})
    made.domain.points(made.data.since, made.basis.variance)  # init() copies the arms
    return made


def play(
    strategy: Any, state: Any, rounds: int = SETTING.rounds, own_variances: bool = True
) -> Any:
    """Rounds, some with success flags and some with noise variances."""
    device = state.time.device
    y = torch.zeros(TRIALS, dtype=torch.float64, device=device)
    good = torch.ones(TRIALS, dtype=torch.bool, device=device)
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=Draws(device))
        assert suggestion.index.device == device
        extra: dict[str, Tensor] = {}
        if t % 3 == 1:
            extra["ok"] = good
        if own_variances and t % 4 == 2:
            extra["noise"] = y + 0.1
        state, info = strategy.tell(state, suggestion, y, check=False, consume=True, **extra)
        assert info.reset.device == device
    return state


def require_no_wait(strategy: Any, allowed: frozenset[str] = frozenset()) -> None:
    """In the first two rounds, and those around resets and the first deletion from a window."""
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for before in (0, 10):
        state = play(strategy, state, before)
        nowhere = emptied(state)
        with NoWaiting(allowed=allowed):
            nowhere = play(strategy, nowhere, 5 if before else 2)
        assert nowhere.time.device == NOWHERE
    assert nowhere.rounds == SETTING.rounds


def by_eigenvectors(preset: Preset, strategy: GPStrategy) -> bool:
    """Whether joint samples are drawn without features."""
    foreseen = strategy.inference == "auto" and strategy.exploration.samples
    return preset.samples and strategy.inference != "features" and not foreseen


@pytest.mark.few(12)
@each_pair(1)
def test_no_round_waits(preset: Preset, engine: str) -> None:
    if preset.consults:
        pytest.skip("drawing points for an expert reads two counts")
    strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
    sampling = by_eigenvectors(preset, strategy)
    require_no_wait(strategy, EIGENVECTORS if sampling else frozenset())


WITHOUT_TEXTBOOK = OTHERS.keys() - {"adaptive_gp_ucb"}  # which waits, see below


@pytest.mark.few("bob_gp_ucb", "pe_gp_ucb", "r_perp", "rexp3")
@pytest.mark.parametrize("name", sorted(WITHOUT_TEXTBOOK))
def test_no_round_of_other_strategies_waits(name: str) -> None:
    make, arguments = listing.PRESETS[name].make, OTHERS[name][1]
    require_no_wait(make(kernel=SETTING.module(), noise=0.02, **arguments))


def test_an_adaptive_strategy_does_not_wait_once_its_units_are_final() -> None:
    """Measurements at the same time may change the units until the next round."""
    small = Bank(lengthscales=(0.4,), noise_ratios=(0.02,))
    strategy = adaptive_gp_ucb(bank=small)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for t in range(5):
        y = torch.full((TRIALS,), float(t), dtype=torch.float64)
        state, _ = strategy.tell(state, strategy.ask(state), y)
    nowhere = emptied(state)
    with NoWaiting():
        for _ in range(2):  # the eighth checks the clock
            nowhere = play_plainly(strategy, nowhere)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["GP-UCB", "ET-GP-UCB"])
def test_one_number_is_read_every_sixteen_rounds(name: str) -> None:
    """The number of distinct arms in use, which bounds the memory.

    Without given variances; small variances would replace arms by rows.
    """
    strategy = replace(BY_NAME[name].strategy(SETTING.module(), 0.02), inference="auto")
    state = emptied(strategy.init(SETTING.domain, batch_shape=(TRIALS,)))
    guard = NoWaiting(numbers=1)
    with guard:
        state = play(strategy, state, 15, own_variances=False)
        assert guard.numbers == 1
        play(strategy, state, 15, own_variances=False)
    assert guard.numbers == 0


MOST_STARTED = {"GP-UCB": 48, "ET-GP-UCB": 62, "TV-GP-UCB": 75, "UI-TVBO": 84, "SW-GP-UCB": 78}
"""Most operations of a round on a device, with some margin for versions of PyTorch. With few trials
the start of an operation takes longer than the operation."""


@pytest.mark.parametrize("name", MOST_STARTED)
def test_a_round_starts_few_operations(name: str) -> None:
    strategy = replace(BY_NAME[name].strategy(SETTING.module(), 0.02), inference="auto")
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for _ in range(13):  # until a window is full
        state = play_plainly(strategy, state)
    # The first round on a device makes the constants.
    state, guard = play_plainly(strategy, emptied(state)), NoWaiting()
    with guard:
        play_plainly(strategy, state)
    assert guard.started <= MOST_STARTED[name]


def play_plainly(strategy: Any, state: Any) -> Any:
    """A round in which nothing failed."""
    y = torch.zeros(TRIALS, dtype=torch.float64, device=state.time.device)
    return strategy.tell(state, strategy.ask(state), y, check=False, consume=True)[0]


def test_the_guard_notices() -> None:
    """The guard detects each way to wait."""
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
        lambda: torch.ones(3).to(x),
        lambda: torch.tensor([1.0, 2.0], device=NOWHERE),
        lambda: torch.as_tensor(1.0, device=NOWHERE),
        lambda: x.new_tensor(1.0),
        lambda: x.copy_(torch.ones(3, 3)),
        lambda: x.__setitem__(0, torch.ones(3)),
        lambda: x[torch.tensor([0, 1])],
        lambda: x[[0, 1]],
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
        x.new_full((), 1.0) + torch.where(x > 0, 1.0, x) + torch.tensor(1.0)
        torch.zeros(3, device=NOWHERE).to(x)


@pytest.mark.gpu
@pytest.mark.parametrize("engine", RECURSIONS)
def test_on_a_real_device(engine: str) -> None:
    for preset in (preset for preset in PRESETS if not preset.consults):
        strategy = replace(preset.strategy(SETTING.module(), SETTING.noise), inference=engine)
        if by_eigenvectors(preset, strategy):
            continue
        state = strategy.init(SETTING.domain, batch_shape=(TRIALS,), device="cuda")
        play(strategy, state)  # loads the libraries
        state = strategy.init_like(state, (TRIALS,))
        torch.cuda.set_sync_debug_mode("error")
        try:
            play(strategy, state, 15)
        finally:
            torch.cuda.set_sync_debug_mode("default")
