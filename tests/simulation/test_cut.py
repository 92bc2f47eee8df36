import pytest
import torch

from botorch_tv.memory import torch_threads
from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.settings import StudySettings, chunk_size, threads_per_chunk
from botorch_tv.strategies import Grid, gp_ucb


@pytest.mark.parametrize(
    ("points", "trials", "cut"),
    [
        (5, 25, (25, 1)),  # 25 arms: not enough to share between two
        (40, 25, (21, 1)),  # 1,600 arms: 21 trials keep a core busy
        (40, 200, (100, 1)),
        (40, 1, (1, 1)),
    ],
)
def test_small_studies_are_not_shared_between_threads(
    points: int, trials: int, cut: tuple[int, int]
) -> None:
    kernel = unit_kernel("se", 0.3)
    settings = StudySettings(
        world=MarkovWorld(Grid.regular(points, 2), kernel=kernel, epsilon=0.1, noise=0.1),
        strategies={"GP": gp_ucb(kernel=kernel, noise=0.1)},
        horizon=10,
        seed=0,
        dtype=torch.float64,
        device=torch.device("cpu"),
    )
    with torch_threads(2):
        chunk = chunk_size(settings, trials=trials, workers=2)
        threads = threads_per_chunk(settings, chunk, trials=trials, workers=2)
    assert (chunk, threads) == cut
