"""GPyTorch kernels of objectives that change with time."""

from botorch_tv.kernels import features  # registers itself with BoTorch
from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel
from botorch_tv.kernels.temporal import DecayKernel, MarkovKernel, WienerKernel
from botorch_tv.kernels.weighted import AgeWeight, WeightedKernel

__all__ = [
    "AgeWeight",
    "DecayKernel",
    "MarkovKernel",
    "SpatioTemporalKernel",
    "WeightedKernel",
    "WienerKernel",
    "features",
]
