import time

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.gp import covariance, regression
from botorch_tv.memory import bytes_text, free_bytes, torch_threads
from botorch_tv.simulation import MarkovWorld, run_study, settings
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, gp_ucb, w_gp_ucb


def test_memory_reserved_by_pytorch_is_free(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (30, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 25)
    assert free_bytes(torch.device("cuda")) == 65


def test_text_of_bytes() -> None:
    texts = [bytes_text(size) for size in (5, 1024, 1.5 * 2**20, 2**40 - 1, 2**75)]
    assert texts == ["5 bytes", "1 KiB", "1.5 MiB", "1,024 GiB", "32,768 EiB"]


KERNEL = unit_kernel("se", 0.3)
WORLD = MarkovWorld(Grid.regular(3, 2), kernel=KERNEL, epsilon=0.1, noise=0.02)
PLAYERS = {"GP": gp_ucb(kernel=KERNEL, noise=0.02)}


def study(**changes: object) -> object:
    return run_study(WORLD, PLAYERS, progress=False, **changes)  # type: ignore[arg-type]


def test_results_beyond_memory_are_refused_before_work(tmp_path) -> None:
    """10^11 rounds of 8 bytes of regret, 4 of side queries, 4 of a choice and 1 of a reset."""
    began = time.perf_counter()
    with pytest.raises(ValueError, match=r"1 strategies x 1,000,000 trials .* take 1.55 TiB, .*"):
        study(trials=10**6, horizon=10**5)
    with pytest.raises(OSError, match=r"GB of free space, but .* take 1.7e\+03 GB; free"):
        study(trials=10**6, horizon=10**5, save_to=tmp_path)
    assert time.perf_counter() - began < 5


def test_limit_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "free_bytes", lambda device: 2 * 17 * 10 * 7)
    with pytest.raises(ValueError, match=r"1.83 KiB, .* 2.32 KiB .* save_to=.* at most trials=7\."):
        study(trials=11, horizon=10, chunk=1)
    assert study(trials=7, horizon=10, chunk=1)


def test_a_trial_beyond_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "free_bytes", lambda device: 1000)
    with pytest.raises(ValueError, match=r"a single trial of 2 rounds takes .* 1,000 bytes of"):
        study(trials=1, horizon=2)


def test_limit_of_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputDataError, match=r"1,000,000 arms, .* 21.8 TiB .* at most [\d,]+ arms"):
        gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(1000, 2))
    monkeypatch.setattr(covariance, "free_bytes", lambda device: 24 * 8 * 8)
    with pytest.raises(InputDataError, match="at most 8 arms"):
        gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(3, 2))
    gp_ucb(kernel=KERNEL, noise=0.02).init(Grid.regular(8, 1))


def test_the_gain_of_many_trials_is_computed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    player = w_gp_ucb(kernel=KERNEL, noise=0.02, gamma=0.9)
    state = player.init(Grid.regular(3, 2), batch_shape=(2, 3))
    usual, largest = regression.log_diagonal, []

    def watched(factor: torch.Tensor) -> torch.Tensor:
        largest.append(factor.shape[:-2].numel())
        return usual(factor)

    monkeypatch.setattr(regression, "log_diagonal", watched)
    found = []
    for numbers in (2**18, 1):
        monkeypatch.setattr(regression, "BLOCK_NUMBERS", {"cpu": numbers})
        now = state
        largest.clear()
        for t in range(6):
            suggestion = player.ask(now)
            now, _ = player.tell(now, suggestion, torch.full((2, 3), 0.1 * t).double())
        assert max(largest) == (6 if numbers > 1 else 1)
        found.append(player.ask(now).sqrt_beta)
    assert found[0].shape == (2, 3)
    torch.testing.assert_close(*found, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("points", "trials", "cut"),
    [
        (5, 25, (25, 1)),  # 25 arms: too few for two threads
        (40, 25, (21, 1)),  # 1,600 arms: 21 trials keep a core busy
        (40, 200, (100, 1)),
        (40, 1, (1, 1)),
    ],
)
def test_chunks_and_threads(points: int, trials: int, cut: tuple[int, int]) -> None:
    world = MarkovWorld(Grid.regular(points, 2), kernel=KERNEL, epsilon=0.1, noise=0.1)
    given = settings.StudySettings(world, PLAYERS, 10, 0, torch.float64, torch.device("cpu"))
    with torch_threads(2):
        chunk = settings.chunk_size(given, trials=trials, workers=2)
        threads = settings.threads_per_chunk(given, chunk, trials=trials, workers=2)
    assert (chunk, threads) == cut
