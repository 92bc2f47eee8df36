"""GPyTorch kernels of objectives that change with time."""

from botorch_tv.kernels.spatio_temporal import AgeWeight, SpatioTemporalKernel, WeightedKernel
from botorch_tv.kernels.temporal import DecayKernel, MarkovKernel, WienerKernel

__all__ = [
    "AgeWeight",
    "DecayKernel",
    "MarkovKernel",
    "SpatioTemporalKernel",
    "WeightedKernel",
    "WienerKernel",
]
