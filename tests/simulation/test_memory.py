import torch

from botorch_tv.simulation.memory import free_bytes


def test_memory_that_pytorch_keeps_is_free(monkeypatch) -> None:
    """A GPU of 100 bytes: others take 10, PyTorch has reserved 60, of which 25 are in use."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (30, 100))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 60)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 25)
    assert free_bytes(torch.device("cuda")) == 65


def test_the_host_has_memory() -> None:
    assert free_bytes(torch.device("cpu")) > 2**20
