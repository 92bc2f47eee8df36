import copy
import pickle

import torch

from botorch_tv.inference.device_copies import DeviceCopies


def test_every_dtype_is_made_once() -> None:
    value = torch.tensor([0.1, 0.2], dtype=torch.float64)
    constant, like = DeviceCopies(value), torch.zeros(3, dtype=torch.float32)
    single = constant.like(like)
    assert torch.equal(single, value.float())
    assert constant.on(torch.float32, torch.device("cpu")) is single
    assert constant.like(value) is value


def test_copies_are_not_saved() -> None:
    constant = DeviceCopies(torch.tensor([0.1], dtype=torch.float64))
    nowhere = constant.like(torch.zeros(0, device="meta"))
    for other in (pickle.loads(pickle.dumps(constant)), copy.deepcopy(constant)):
        assert other.like(torch.zeros(0, device="meta")) is not nowhere
        assert other.like(torch.zeros(0, dtype=torch.float64)).item() == 0.1
