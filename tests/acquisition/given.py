"""Candidates with a given posterior."""

import math

import torch

from botorch_tv.acquisition import Candidates
from botorch_tv.gp.tensors import Scratch

D = torch.float64


class Given(Candidates):
    mean = sd = noise = incumbent = best_observation = sqrt_beta = None
    has_data = torch.tensor(True)

    def __init__(self, mean, sd, scale=2.0, sign=1, incumbent=1.0, observed=math.nan):
        self.mean, self.sd = torch.tensor(mean, dtype=D), torch.tensor(sd, dtype=D)
        self.sign, self.scale, self.scratch = sign, scale, Scratch()
        self.incumbent, self.sqrt_beta = torch.tensor([incumbent], dtype=D), 0.0
        self.best_observation = torch.tensor([observed], dtype=D)

    def nothing(self, *_):
        raise NotImplementedError

    sample = uniform = argmax = at = anywhere = where = nothing
