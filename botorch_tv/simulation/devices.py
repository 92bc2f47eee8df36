"""The devices that a study computes on."""

from __future__ import annotations

import torch


def named_device(device: torch.device | str) -> torch.device:
    """The device of this name, whether or not this machine has it.

    Raises:
        ValueError: If PyTorch knows no such device.
    """
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device is {device!r}, but PyTorch knows no such device; give 'cpu' or 'cuda'."
        ) from error


def usable_device(device: torch.device | str) -> torch.device:
    """The device of this name on this machine.

    Args:
        device: A device or its name, such as ``"cpu"`` or ``"cuda:1"``.

    Raises:
        ValueError: If this machine has no such device.
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
    """The device of this machine for one task; tasks are spread over several GPUs in turn.

    Args:
        device: The device of the study; ``"cuda"`` stands for any GPU.
        number: Number of the task.

    Raises:
        ValueError: If this machine has no such device.
    """
    place = usable_device(device)
    if place.type == "cuda" and place.index is None:
        return torch.device("cuda", number % torch.cuda.device_count())
    return place


def is_here(device: torch.device) -> bool:
    """Whether this machine has the device."""
    try:
        usable_device(device)
    except ValueError:
        return False
    return True


def device_name(device: torch.device) -> str:
    """The model of a GPU of this machine; otherwise the type of the device."""
    if device.type == "cuda" and is_here(device):
        return str(torch.cuda.get_device_name(device))
    return device.type
