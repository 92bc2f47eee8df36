"""GPyTorch kernels of objectives that change with time."""

from typing import TYPE_CHECKING

from botorch_tv.kernels.spatio_temporal import AgeWeight as AgeWeight
from botorch_tv.kernels.spatio_temporal import SpatioTemporalKernel as SpatioTemporalKernel
from botorch_tv.kernels.spatio_temporal import WeightedKernel as WeightedKernel
from botorch_tv.kernels.temporal import DecayKernel as DecayKernel
from botorch_tv.kernels.temporal import MarkovKernel as MarkovKernel
from botorch_tv.kernels.temporal import WienerKernel as WienerKernel

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
