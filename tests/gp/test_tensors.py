"""Rows of a log, and some of many trials."""

import copy

import torch

from botorch_tv.gp.tensors import Rows, append_together


def empty(capacity: int = 2) -> Rows:
    return Rows.empty(
        torch.Size([3]), (2,), dtype=torch.float64, device=torch.device("cpu"), capacity=capacity
    )


def test_rows_come_back_in_order_beyond_the_first_capacity() -> None:
    given = [torch.full((3, 2), float(number), dtype=torch.float64) for number in range(40)]
    rows = empty()
    for row in given:
        rows = rows.append(row)
    assert len(rows) == 40
    assert torch.equal(rows.tensor(), torch.stack(given, dim=1))
    assert torch.equal(rows.tensor(37), torch.stack(given[37:], dim=1))
    assert torch.equal(rows.row(5), given[5])


def test_two_futures_of_a_state_are_independent() -> None:
    past = empty(capacity=16).append(torch.zeros(3, 2, dtype=torch.float64))
    item = past.append(torch.ones(3, 2, dtype=torch.float64))
    other = past.append(2 * torch.ones(3, 2, dtype=torch.float64))
    assert item.tensor().data_ptr() == past.tensor().data_ptr() != other.tensor().data_ptr()
    assert len(past) == 1
    assert torch.equal(item.row(1), torch.ones(3, 2, dtype=torch.float64))
    assert torch.equal(other.row(1), 2 * torch.ones(3, 2, dtype=torch.float64))


def test_a_copy_has_memory_of_its_own() -> None:
    rows = empty().append(torch.ones(3, 2, dtype=torch.float64))
    twin = copy.deepcopy(rows)
    assert torch.equal(twin.tensor(), rows.tensor())
    assert twin.tensor().data_ptr() != rows.tensor().data_ptr()


def test_a_row_of_several_sequences_at_a_time() -> None:
    first = Rows.empty(torch.Size([2]), dtype=torch.float64, device=torch.device("cpu"), capacity=1)
    other = Rows.empty(torch.Size([2]), dtype=torch.float32, device=torch.device("cpu"))
    rows = [torch.tensor([1.0, 2.0], dtype=torch.float64), torch.tensor(3.0)]
    item, two = append_together([first, other], rows)
    again, _ = append_together([first, other], [7 * rows[0], rows[1]])
    longer, _ = append_together([item, two], [rows[0] + 1, rows[1]])
    assert item.tensor().tolist() == [[1.0], [2.0]]
    assert two.tensor().tolist() == [[3.0], [3.0]]
    assert again.tensor().tolist() == [[7.0], [14.0]]
    assert longer.tensor().tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert (len(first), len(item), len(longer)) == (0, 1, 2)
