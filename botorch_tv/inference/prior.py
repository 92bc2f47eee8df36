"""What is known of functions on a domain before any data."""

from __future__ import annotations

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.box import BoxPrior
from botorch_tv.inference.mixture.bank import BankPrior

Prior = Basis | BoxPrior | BankPrior
"""A kernel factored over arms, one held for points of a box, or a bank of processes."""
