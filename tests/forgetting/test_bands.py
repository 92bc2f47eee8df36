"""The band of a trigger: that of the paper's rule, and none for another."""

import math

import pytest
import torch

from botorch_tv.forgetting import EventTrigger

D = torch.float64


def twice(y, mean, sd, noise, since, delta):
    """Outside two standard deviations of the prediction."""
    return (y - mean).abs() > 2 * (sd.square() + noise).sqrt()


def test_a_rule_of_another_form_has_none():
    sd, since = torch.tensor([0.5], dtype=D), torch.tensor([3])
    assert EventTrigger(0.1, twice).band(sd, 0.1, since) is None
    doubled = 2 * math.log(2 * math.pi**2 * 9 / 6 / 0.1)
    expected = math.sqrt(doubled) * 0.5 + math.sqrt(0.1 * doubled)
    assert EventTrigger(0.1).band(sd, 0.1, since).item() == pytest.approx(expected, rel=1e-14)
