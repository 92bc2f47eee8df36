"""Where a study computes."""

from __future__ import annotations

import torch


def named_device(device: torch.device | str) -> torch.device:
    """A device, which need not be on this machine.

    Raises:
        ValueError: If there is none of that name.
    """
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device is {device!r}, which is none; give 'cpu' or 'cuda'.") from error


def usable_device(device: torch.device | str) -> torch.device:
    """A device that is here.

    Args:
        device: A device or its name, such as ``"cpu"`` or ``"cuda:1"``.

    Raises:
        ValueError: If there is no such device.
    """
    place = named_device(device)
    if place.type == "cuda":
        count = torch.cuda.device_count()
        if (place.index or 0) >= count:
            raise ValueError(
                f"device is '{place}', but PyTorch sees {count} CUDA devices; give 'cpu', or "
                "install PyTorch with CUDA on a machine with a GPU."
            )
    return place


def device_of_worker(device: torch.device, number: int) -> torch.device:
    """The device of this machine that a worker takes; of several GPUs, tasks take turns.

    Args:
        device: What the study wants: ``"cuda"`` for any GPU.
        number: Of the task.

    Raises:
        ValueError: If there is no such device.
    """
    place = usable_device(device)
    if place.type == "cuda" and place.index is None:
        return torch.device("cuda", number % torch.cuda.device_count())
    return place


def is_here(device: torch.device) -> bool:
    """Whether this machine has a device."""
    try:
        usable_device(device)
    except ValueError:
        return False
    return True


def device_name(device: torch.device) -> str:
    """What a device calls itself, or what it is called where it is not on this machine."""
    if device.type == "cuda" and is_here(device):
        return str(torch.cuda.get_device_name(device))
    return device.type
