import torch

from botorch_tv.simulation.streams import BLOCK, Stream

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}


def test_a_trial_draws_the_same_whatever_it_runs_with() -> None:
    whole = Stream(7, "world", 0, 2 * BLOCK + 5, **CPU)
    part = Stream(7, "world", BLOCK - 2, 9, **CPU)
    for _ in range(3):
        assert torch.equal(whole.normal(4)[BLOCK - 2 : BLOCK + 7], part.normal(4))
        assert torch.equal(whole.uniform(2)[BLOCK - 2 : BLOCK + 7], part.uniform(2))


def test_seeds_and_purposes_are_apart() -> None:
    draws = [Stream(s, p, 0, 8, **CPU).normal() for s, p in ((0, "a"), (1, "a"), (0, "b"))]
    assert len({tuple(draw.tolist()) for draw in draws}) == 3


def test_float32_runs_see_the_float64_numbers() -> None:
    single = Stream(0, "a", 0, 8, dtype=torch.float32, device=torch.device("cpu")).normal(3)
    assert single.dtype == torch.float32
    assert torch.equal(single, Stream(0, "a", 0, 8, **CPU).normal(3).float())
