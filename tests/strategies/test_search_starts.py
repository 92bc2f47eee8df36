"""Where ascents begin: at peaks of the raw samples, and at the best observations."""

import numpy as np
import pytest
import torch

from botorch_tv.gp.search import Sought, nearest, peaks_of, raw_points, spread
from botorch_tv.strategies import Box, MultiStart

D = torch.float64
UNIT = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))
BROAD, NARROW = torch.tensor([0.25, 0.3], dtype=D), torch.tensor([0.8, 0.75], dtype=D)


def raw_samples(number, dim):
    return spread(number, dim).on(D, torch.device("cpu"))


def two_hills(X, trials):
    broad = 0.9 * torch.exp(-0.5 * (X - BROAD).square().sum(-1) / 0.3**2)
    return broad + torch.exp(-0.5 * (X - NARROW).square().sum(-1) / 0.06**2)


def by_hand(points, values):
    points, values = points.numpy(), values.numpy()
    retained = np.full_like(values, -np.inf)
    for trial, row in enumerate(values):
        for i, value in enumerate(row):
            order = np.argsort(np.linalg.norm(points - points[i], axis=1), kind="stable")
            near = [j for j in order if j != i][: 2 * points.shape[1] + 2]
            if value >= max(row[j] for j in near):
                retained[trial, i] = value
    return retained


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_peaks_are_no_lower_than_their_neighbours(dim):
    source = torch.Generator().manual_seed(dim)
    values = torch.rand(4, 60, dtype=D, generator=source)
    points = raw_points(60, dim, 3, values)
    peaks = peaks_of(points, values)
    np.testing.assert_array_equal(peaks.numpy(), by_hand(points, values))
    assert int((peaks > -torch.inf).sum(-1).max()) < 60 / 2


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6])
def test_the_nearest_in_a_cube_are_found_among_those_on_a_torus(dim):
    for told in (0, 1, 17):
        raw = raw_points(300, dim, told, torch.zeros(1, dtype=D))
        apart = (raw.unsqueeze(1) - raw).square().sum(-1).fill_diagonal_(torch.inf)
        wanted = apart.topk(2 * dim + 2, largest=False).indices
        assert torch.equal(nearest(raw, 2 * dim + 2).sort().values, wanted.sort().values)


def test_few_points_have_few_neighbours():
    values = torch.tensor([[0.3, 0.1, 0.2]], dtype=D)
    retained = peaks_of(raw_samples(3, 2), values)
    assert retained.tolist() == [[0.3, -torch.inf, -torch.inf]]  # all three are next to each other
    assert peaks_of(raw_samples(1, 2), values[:, :1]).tolist() == [[0.3]]


def test_a_third_of_the_starts_are_the_best_observations():
    search = MultiStart(raw_samples=64, restarts=6)
    seen = torch.rand(2, 5, 2, dtype=D, generator=torch.Generator().manual_seed(1))
    live = torch.tensor([[True, True, False, True, True], [False, False, True, False, False]])
    heights = two_hills(seen, None).masked_fill(~live, -torch.inf)
    start = search._starts(UNIT, Sought(two_hills, seen, live, 0, 1.0))
    assert start.shape == (2, 6, 2)
    for trial, number in enumerate((2, 1)):
        wanted = seen[trial, heights[trial].topk(number).indices]
        told = [row for row in start[trial] if bool((row == seen[trial]).all(-1).any())]
        torch.testing.assert_close(torch.stack(told), wanted)
        others = {tuple(row) for row in start[trial].tolist()} - {
            tuple(row) for row in wanted.tolist()
        }
        raw = raw_samples(64, 2)
        peaks = by_hand(raw, two_hills(raw, None).unsqueeze(0))[0]
        assert others == {tuple(raw[i].tolist()) for i in np.argsort(-peaks)[: len(others)]}
        assert len(others) == min(6 - number, int(np.isfinite(peaks).sum()))
