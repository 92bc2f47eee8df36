import copy
import pickle

import pytest
import torch
from torch import Size

from botorch_tv.gp.tensors import DeviceCopies, repeated


def test_copies_are_not_saved() -> None:
    constant = DeviceCopies(torch.tensor([0.1], dtype=torch.float64))
    nowhere = constant.like(torch.zeros(0, device="meta"))
    for other in (pickle.loads(pickle.dumps(constant)), copy.deepcopy(constant)):
        assert other.like(torch.zeros(0, device="meta")) is not nowhere
        assert other.like(torch.zeros(0, dtype=torch.float64)).item() == 0.1


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (0,), (3,), (2, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
def test_a_repeated_number_is_read_only(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    given = Size(shape), dtype, torch.device("cpu")
    with torch.inference_mode():
        number = repeated(2.0, *given)
    assert torch.equal(number, torch.full(shape, 2, dtype=dtype))
    if number.numel() > 1:  # shared, so neither a tensor of inference mode nor writable
        assert not number.is_inference()
        with pytest.raises(RuntimeError, match="single memory location"):
            number.add_(1)
        assert repeated(2.0, *given).data_ptr() == number.data_ptr()
    else:
        repeated(2.0, *given).add_(1)
    assert torch.equal(repeated(2.0, *given), torch.full(shape, 2, dtype=dtype))
