"""Bad input: a clear error that names value, limit and fix, and a state left as it was (law 6)."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from conformance.presets import BY_NAME, ENGINES
from conformance.rounds import Setting
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import (
    Grid,
    Strategy,
    gp_ucb,
)

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=10)
X = SETTING.domain.X
TRIALS = 4
NAN, INF = float("nan"), float("inf")
DATA_STRATEGIES = ["GP-UCB", "TV-GP-UCB", "ET-GP-UCB", "SW-GP-UCB", "UI-GP-UCB"]


def double(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


GOOD = double(0.1, 0.2, 0.3, 0.4)


@pytest.fixture(params=[(name, engine) for name in DATA_STRATEGIES for engine in ENGINES], ids=str)
def run(request: pytest.FixtureRequest) -> tuple[Strategy, Any]:
    """A strategy and its state after three rounds; no call may change either."""
    return after_three_rounds(*request.param)


@cache
def after_three_rounds(name: str, engine: str) -> tuple[Strategy, Any]:
    strategy = replace(BY_NAME[name].strategy(SETTING.module(), 0.02), inference=engine)
    state = strategy.init(SETTING.domain, batch_shape=(TRIALS,))
    for _ in range(3):
        state, _ = strategy.tell(state, strategy.ask(state), GOOD)
    return strategy, state


def assert_rejected(
    strategy: Strategy,
    state: Any,
    call: Callable[[], Any],
    *mentioned: str,
    error: type[Exception] | tuple[type[Exception], ...] = InputDataError,
) -> None:
    """The call raises, says what is wrong, and the state plays on as if nothing happened."""
    before = copy.deepcopy(state)
    with pytest.raises(error) as raised:
        call()
    message = str(raised.value)
    for part in mentioned:
        assert part in message, message
    assert_identical(state, before)
    after, _ = strategy.tell(state, strategy.ask(state), GOOD)
    expected, _ = strategy.tell(before, strategy.ask(before), GOOD)
    assert_identical(after, expected)


@pytest.mark.parametrize("bad", [NAN, INF, -INF], ids=str)
def test_observation_not_finite(run: tuple[Strategy, Any], bad: float) -> None:
    strategy, state = run
    suggestion, y = strategy.ask(state), double(0.1, 0.2, bad, 0.4)
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, y), str(bad), "2")


def test_two_dimensional_batch_names_the_trial() -> None:
    strategy = gp_ucb(kernel=SETTING.module(), noise=0.02)
    state = strategy.init(SETTING.domain, batch_shape=(2, 3))
    y = torch.zeros(2, 3, dtype=torch.float64)
    y[1, 2] = NAN
    with pytest.raises(InputDataError, match=r"\(1, 2\)|\[1, 2\]|5"):
        strategy.tell(state, strategy.ask(state), y)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5,), (TRIALS, 1), (1, TRIALS)], ids=str)
def test_observation_of_wrong_shape(run: tuple[Strategy, Any], shape: tuple[int, ...]) -> None:
    strategy, state = run
    suggestion, y = strategy.ask(state), torch.zeros(shape, dtype=torch.float64)
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, y), str(TRIALS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex128], ids=str)
def test_observation_of_wrong_dtype(run: tuple[Strategy, Any], dtype: torch.dtype) -> None:
    strategy, state = run
    suggestion, y = strategy.ask(state), torch.zeros(TRIALS, dtype=dtype)
    said = (str(dtype).removeprefix("torch."), "float64")
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, y), *said)


@pytest.mark.parametrize("y", [1.0, 2, [0.1, 0.2, 0.3, 0.4], None], ids=str)
def test_observation_that_is_no_tensor(run: tuple[Strategy, Any], y: Any) -> None:
    """One number for four trials is refused, since it would hide that three were not measured."""
    strategy, state = run
    suggestion = strategy.ask(state)
    said = (f"y is {y}", r"shape (4,)", "torch.tensor(y, dtype=torch.float64)")
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, y), *said)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_a_number_will_do_for_one_trial(dtype: torch.dtype) -> None:
    strategy = BY_NAME["ET-GP-UCB"].strategy(SETTING.module(), 0.02)
    state = strategy.init(SETTING.domain, dtype=dtype)
    suggestion = strategy.ask(state)
    for y in (0.1, 2, np.float64(0.1)):
        after, info = strategy.tell(state, suggestion, y)
        expected, told = strategy.tell(state, suggestion, torch.tensor(y, dtype=dtype))
        assert_identical(after, expected)
        assert_identical(info, told)
    for bad in (NAN, INF):
        with pytest.raises(InputDataError, match=f"{bad} as observation y is not finite"):
            strategy.tell(state, suggestion, bad)
    for bad in ("0.1", True, None):
        with pytest.raises(InputDataError, match=r"it must be a number, or a tensor of shape \(\)"):
            strategy.tell(state, suggestion, bad)  # type: ignore[arg-type]


def test_observation_on_wrong_device(run: tuple[Strategy, Any]) -> None:
    strategy, state = run
    suggestion, y = strategy.ask(state), torch.zeros(TRIALS, dtype=torch.float64, device="meta")
    said = ("meta", "cpu")
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, y), *said)


def test_arm_off_the_grid(run: tuple[Strategy, Any]) -> None:
    strategy, state = run
    off = X[:TRIALS].clone()
    off[3] = double(0.123, 0.25)
    calls: list[Callable[[], Any]] = [
        lambda: strategy.suggestion_at(state, off),
        lambda: strategy.posterior(state, off.unsqueeze(1)),
    ]
    for call in calls:
        assert_rejected(strategy, state, call, "0.123", "3")
    bare = double(0.5, 0.123).unsqueeze(0)
    assert_rejected(strategy, state, lambda: strategy.posterior(state, bare), "0.123")
    far = X[:TRIALS] + 10.0
    assert_rejected(strategy, state, lambda: strategy.suggestion_at(state, far), "10")


@pytest.mark.parametrize("bad", [NAN, INF], ids=str)
def test_arm_not_finite(run: tuple[Strategy, Any], bad: float) -> None:
    strategy, state = run
    arms = X[:TRIALS].clone()
    arms[1, 0] = bad
    assert_rejected(strategy, state, lambda: strategy.suggestion_at(state, arms), str(bad))


def test_arms_of_wrong_shape(run: tuple[Strategy, Any]) -> None:
    strategy, state = run
    good = X[:TRIALS]
    for bad in (good[0], good[:3], good[:, :1], good.unsqueeze(0)):
        assert_rejected(strategy, state, lambda bad=bad: strategy.suggestion_at(state, bad))
    for bad in (X[:, :1], X[0], X.expand(3, 25, 2)):
        assert_rejected(strategy, state, lambda bad=bad: strategy.posterior(state, bad))


@pytest.mark.parametrize("wrong", [{"dtype": torch.float32}, {"device": "meta"}], ids=str)
def test_arms_of_wrong_dtype_or_device(run: tuple[Strategy, Any], wrong: dict[str, Any]) -> None:
    strategy, state = run
    said = ("float32", "float64") if "dtype" in wrong else ("meta", "cpu")
    bad = X[:TRIALS].to(**wrong)
    assert_rejected(strategy, state, lambda: strategy.suggestion_at(state, bad), *said)
    assert_rejected(strategy, state, lambda: strategy.posterior(state, bad), *said)


def test_time_running_backwards(run: tuple[Strategy, Any]) -> None:
    """Three rounds are told, so the clock stands at 3."""
    strategy, state = run
    suggestion = strategy.ask(state)
    late = double(4.0, 4.0, 4.0, 2.5)
    calls: list[Callable[[], Any]] = [
        lambda: strategy.tell(state, suggestion, GOOD, time=late),
        lambda: strategy.ask(state, now=late),
        lambda: strategy.suggestion_at(state, X[:TRIALS], now=late),
        lambda: strategy.posterior(state, X, now=late),
        lambda: strategy.recommend(state, now=late),
    ]
    for call in calls:
        assert_rejected(strategy, state, call, "2.5", "3")
    assert_rejected(strategy, state, lambda: strategy.ask(state, now=1.75), "1.75", "3")
    strategy.tell(state, suggestion, GOOD, time=3.0)  # standing still is not running backwards


def test_stale_suggestion_is_backwards_too(run: tuple[Strategy, Any]) -> None:
    """Telling twice with one suggestion: its own time is the newest told by then, not before."""
    strategy, state = run
    suggestion = strategy.ask(state, now=10.0)
    state, _ = strategy.tell(state, strategy.ask(state), GOOD, time=12.0)
    assert_rejected(strategy, state, lambda: strategy.tell(state, suggestion, GOOD), "10", "12")


@pytest.mark.parametrize("bad", [NAN, INF, -INF], ids=str)
def test_time_not_finite(run: tuple[Strategy, Any], bad: float) -> None:
    strategy, state = run
    suggestion = strategy.ask(state)
    times = double(4.0, bad, 4.0, 4.0)
    for call in (
        lambda: strategy.tell(state, suggestion, GOOD, time=times),
        lambda: strategy.ask(state, now=times),
        lambda: strategy.ask(state, now=bad),
        lambda: strategy.posterior(state, X, now=times),
    ):
        assert_rejected(strategy, state, call, str(bad))


def test_time_of_wrong_shape(run: tuple[Strategy, Any]) -> None:
    strategy, state = run
    suggestion = strategy.ask(state)
    for times in (double(4.0, 4.0, 4.0), torch.full((TRIALS, 1), 4.0).double()):
        assert_rejected(strategy, state, lambda t=times: strategy.ask(state, now=t), "4")
        assert_rejected(
            strategy, state, lambda t=times: strategy.tell(state, suggestion, GOOD, time=t), "4"
        )


def test_suggestion_of_another_batch(run: tuple[Strategy, Any]) -> None:
    strategy, state = run
    other = strategy.ask(strategy.init(SETTING.domain, batch_shape=(2,)))
    assert_rejected(strategy, state, lambda: strategy.tell(state, other, GOOD))


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
class TestKernelMatrix:
    """Where the matrix meets the domain is `init`; earlier is as good."""

    def start(self, matrix: torch.Tensor, engine: str, count: int = 3) -> None:
        domain = Grid(torch.arange(count, dtype=torch.float64).unsqueeze(-1))
        strategy = gp_ucb(kernel=matrix, noise=0.02, inference=engine)
        state = strategy.init(domain, batch_shape=(2,))
        state, _ = strategy.tell(state, strategy.ask(state), double(0.1, 0.2))

    def test_indefinite(self, engine: str) -> None:
        matrix = torch.eye(3, dtype=torch.float64)
        matrix[0, 1] = matrix[1, 0] = 1.5  # eigenvalue -0.5
        with pytest.raises((ValueError, InputDataError), match=r"-0\.5"):
            self.start(matrix, engine)

    def test_a_little_indefinite(self, engine: str) -> None:
        """Refused below -1e-8 of the largest eigenvalue, clipped above."""
        random = torch.linalg.qr(torch.randn(3, 3, generator=torch.manual_seed(0)).double())[0]

        def spectrum(smallest: float) -> torch.Tensor:
            matrix = random @ torch.diag(double(1.0, 0.5, smallest)) @ random.T
            return (matrix + matrix.T) / 2

        self.start(spectrum(-1e-9), engine)
        with pytest.raises((ValueError, InputDataError)):
            self.start(spectrum(-1e-6), engine)

    def test_not_symmetric(self, engine: str) -> None:
        matrix = torch.eye(3, dtype=torch.float64)
        matrix[0, 1] = 0.5
        with pytest.raises((ValueError, InputDataError), match="symmetric"):
            self.start(matrix, engine)

    def test_not_square(self, engine: str) -> None:
        with pytest.raises((ValueError, InputDataError)):
            self.start(torch.eye(3, dtype=torch.float64)[:2], engine)

    def test_other_size_than_the_domain(self, engine: str) -> None:
        with pytest.raises((ValueError, InputDataError), match="4"):
            self.start(torch.eye(4, dtype=torch.float64), engine)

    @pytest.mark.parametrize("bad", [NAN, INF], ids=str)
    def test_not_finite(self, engine: str, bad: float) -> None:
        matrix = torch.eye(3, dtype=torch.float64)
        matrix[1, 1] = bad
        with pytest.raises((ValueError, InputDataError), match=f"(?i){bad}"):
            self.start(matrix, engine)


class TestDomain:
    def test_bounds_of_a_regular_grid(self) -> None:
        """As pairs, or as the corners that a Box takes; a tensor of pairs is no such thing."""
        corners = torch.tensor([[-1.0, 0.0, 5.0], [1.0, 2.0, 6.0]], dtype=torch.float64)
        pairs = [(-1, 1), (0, 2), (5, 6)]
        expected = Grid.regular(4, 3, bounds=pairs)
        assert torch.equal(Grid.regular(4, 3, bounds=corners).X, expected.X)
        for axis, (low, high) in enumerate(pairs):
            assert expected.X[:, axis].unique().tolist() == pytest.approx(
                np.linspace(low, high, 4).tolist()
            )
        for bad, said in [
            (corners.T, r"bounds is \[\[-1\.0, 1\.0\], .*shape 2 x d"),
            (corners[:, :2], r"bounds is a tensor of shape \(2, 2\), but dim is 3; .* 2 x 3"),
            (pairs[:2], r"bounds is \[\(-1, 1\), \(0, 2\)\], but dim is 3; give one \(low, high\)"),
            ((0, 1, 2), r"bounds is \(0, 1, 2\), but .*\[\(low, high\)"),
            (5.0, r"bounds is 5\.0, but .*\[\(low, high\)"),
            ([*pairs[:2], (6, 5)], r"bounds is \[\[-1\.0, 0\.0, 6\.0\].* below the upper"),
            (corners.flip(0), "bounds is .* below the upper"),
        ]:
            with pytest.raises(InputDataError, match=f"Grid.regular: {said}"):
                Grid.regular(4, 3, bounds=bad)  # type: ignore[arg-type]


def test_float32_kernel_under_a_float64_run_warns() -> None:
    """0.2 in float32 is 3e-9 off: the numbers shift without anyone noticing."""
    kernel = RBFKernel()
    kernel.lengthscale = 0.2
    with pytest.warns(InputDataWarning, match="float32"):
        gp_ucb(kernel=kernel, noise=0.02).init(SETTING.domain)
