"""Where nearly exact data know a function: variances that rounding makes negative are 0."""

import pytest
import torch
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import Box, GPStrategy, Grid

D = torch.float64
BOX = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))


@pytest.mark.parametrize("domain", [Grid.regular(20, 2), BOX], ids=["grid", "box"])
def test_suggestions_among_points_that_tell_all_have_a_deviation(domain):
    kernel = RBFKernel().double()
    kernel.lengthscale = 0.5
    strategy = GPStrategy(kernel=kernel, noise=2e-14)
    source = torch.Generator().manual_seed(0)

    def points():
        if isinstance(domain, Box):
            return torch.rand(30, 2, dtype=D, generator=source)
        return domain.X.to(D)[torch.randint(len(domain), (30,), generator=source)]

    state = strategy.init(domain, batch_shape=(30,))
    told = [points() for _ in range(60)]
    for X in told:
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), X.sum(-1))
    for X in [*told, *(points() for _ in range(20))]:
        suggestion = strategy.suggestion_at(state, X)
        assert bool((suggestion.sd >= 0).all())  # NaN is not
        assert float(suggestion.sd.max()) < 0.01
        torch.testing.assert_close(suggestion.mean, X.sum(-1), rtol=0, atol=0.01)
