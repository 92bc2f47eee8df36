"""Where a study computes."""

from __future__ import annotations

import torch


def usable_device(device: torch.device | str) -> torch.device:
    """A device that is here.

    Args:
        device: A device or its name, such as ``"cpu"`` or ``"cuda:1"``.

    Raises:
        ValueError: If there is no such device.
    """
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device is {device!r}, which is none; give 'cpu' or 'cuda'.") from error
    if place.type == "cuda":
        count = torch.cuda.device_count()
        if (place.index or 0) >= count:
            raise ValueError(
                f"device is '{place}', but PyTorch sees {count} CUDA devices; give 'cpu', or "
                "install PyTorch with CUDA on a machine with a GPU."
            )
    return place


def device_name(device: torch.device) -> str:
    """What a device calls itself."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return device.type
