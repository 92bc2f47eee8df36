"""Passes that are fused do what one operation at a time does, or are not made."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from kernels import INSTALLED, INTERPRETED, ON_GPU, needs_interpreter
from lasting import Child, interpret
from torch import Tensor

from botorch_tv.simulation.captured import fusing
from botorch_tv.simulation.captured.fusing import MOST_ARMS, alike, fastest
from botorch_tv.simulation.captured.passes import Elapsed, Passes

CPU, GPU = torch.device("cpu"), torch.device("cuda")
FOUND: Callable[[str], object] = lambda name: name  # noqa: E731


class LastOfTies(Passes):
    def choose(self, sqrt_beta, elapsed):
        super().choose(sqrt_beta, elapsed)
        score = self.variance.clamp_min(0).sqrt() * sqrt_beta[:, None] + self.sign * self.mean
        near = score >= score.amax(-1, keepdim=True) - self.tie
        return score.shape[-1] - 1 - near.flip(-1).to(torch.uint8).argmax(-1)


class NoTies(Passes):
    def choose(self, sqrt_beta, elapsed):
        self.tie = 0.0
        return super().choose(sqrt_beta, elapsed)


class OneWidth(Passes):
    def choose(self, sqrt_beta, elapsed):
        return super().choose(sqrt_beta[:1], elapsed)


class NoTime(Passes):
    def choose(self, sqrt_beta, elapsed):
        return super().choose(sqrt_beta, None)


class NeverForgets(Passes):
    def take_in(self, step, surprise, forgotten, *, sign):
        super().take_in(step, surprise, None, sign=sign)


class NeverLeavesOut(Passes):
    def take_in(self, step, surprise, forgotten, *, sign):
        super().take_in(step, surprise, forgotten, sign=1)


class NeverShrinks(Passes):
    def absorb(self, inverse, direction, square, reach, *, sign):
        super().absorb(inverse, direction, None, reach, sign=sign)


class FewerHeld(Passes):
    def absorb(self, inverse, direction, square, reach, *, sign):
        there = torch.arange(direction.shape[-1]) < reach[:, None] - 1
        kept = inverse.clone()
        super().absorb(inverse, direction, square, reach, sign=sign)
        torch.where(there[:, None] & there[..., None], inverse, kept, out=inverse)


class AlwaysAdds(Passes):
    def absorb(self, inverse, direction, square, reach, *, sign):
        super().absorb(inverse, direction, square, reach, sign=1)


class Maximizes(Passes):
    def choose(self, sqrt_beta, elapsed):
        self.sign = 1
        return super().choose(sqrt_beta, elapsed)


@pytest.mark.parametrize(
    "wrong",
    [
        LastOfTies,
        NoTies,
        OneWidth,
        NoTime,
        NeverForgets,
        NeverLeavesOut,
        NeverShrinks,
        FewerHeld,
        AlwaysAdds,
        Maximizes,
    ],
)
def test_passes_that_do_something_else_are_found_out(wrong: type[Passes]) -> None:
    assert alike(Passes, 40, torch.float64, CPU)
    assert not alike(wrong, 40, torch.float64, CPU)


def test_nothing_is_fused_where_nothing_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusing, "find_spec", FOUND)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fastest(9, torch.float64, CPU) is Passes
        assert fastest(MOST_ARMS + 1, torch.float64, GPU) is Passes
        monkeypatch.setattr(fusing, "find_spec", lambda name: None)
        assert fastest(9, torch.float64, GPU) is Passes


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_passes_that_cannot_be_fused_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusing, "find_spec", FOUND)
    with pytest.warns(UserWarning, match="could not be fused by Triton"):
        assert fastest(9, torch.float64, GPU) is Passes


def test_passes_that_are_wrong_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    class Module:
        FusedPasses = NoTies

    monkeypatch.setattr(fusing, "find_spec", FOUND)
    monkeypatch.setitem(sys.modules, "botorch_tv.simulation.captured.fused", Module)
    here = fusing.alike
    monkeypatch.setattr(fusing, "alike", lambda kind, arms, dtype, _: here(kind, arms, dtype, CPU))
    with pytest.warns(UserWarning, match=r"\(they did something else\)"):
        assert fastest(40, torch.float64, GPU) is Passes
    Module.FusedPasses = OnTheSide
    assert fastest(40, torch.float64, GPU) is OnTheSide


class OnTheSide(Passes):
    """Another one that is right."""


def played(
    kind: type[Passes], arms: int, dtype: torch.dtype, device: torch.device, sign: int
) -> list[Tensor]:
    """Choices and what is known after a few rounds of random numbers in five trials."""
    draws = torch.Generator().manual_seed(arms)

    def random(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=draws, dtype=dtype).to(device)

    slots = min(arms, 70)
    mean, variance = random(5, arms) - 0.5, random(5, arms) - 0.05  # rounded below 0
    passes = kind(mean, variance, random(arms), random(arms), sign=sign, tie=0.05)
    found = []
    for number in range(4):
        kept, each = random(5), random(5) + 1
        elapsed = Elapsed(kept, kept.square(), 1 - kept) if number % 2 else None
        found.append(passes.choose(each if number < 2 else each[:1], elapsed))
        forgotten = random(5) < 0.5 if number else None
        way = 1 - 2 * (number == 2)
        passes.take_in(random(5, arms) - 0.5, each, forgotten, sign=way)
        slot, reach = torch.arange(slots, device=device), (random(5) * (slots + 1)).long()
        held = slot < reach.unsqueeze(-1)
        inverse = random(5, slots, slots) * (held.unsqueeze(-1) & held.unsqueeze(-2))
        square = kept if number % 2 else None
        passes.absorb(inverse, random(5, slots) * held, square, reach, sign=way)
        found.append(inverse)
    return [*found, mean, variance]


def require_same(arms: int, dtype: torch.dtype, device: torch.device) -> None:
    from botorch_tv.simulation.captured.fused import FusedPasses

    assert alike(FusedPasses, arms, dtype, device)
    for sign in (1, -1):
        both = (played(kind, arms, dtype, device, sign) for kind in (FusedPasses, Passes))
        for fused, one in zip(*both):
            torch.testing.assert_close(fused, one)


SIZES = pytest.mark.parametrize("arms", [1, 31, 81, 1024, 2500])
TYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


@needs_interpreter
@SIZES
@TYPES
def test_fused_passes_in_the_interpreter(arms: int, dtype: torch.dtype) -> None:
    require_same(arms, dtype, CPU)


@needs_interpreter
def test_fused_passes_choose_an_arm_of_no_numbers_and_of_infinite_ones() -> None:
    from botorch_tv.simulation.captured.fused import FusedPasses

    nan, inf = float("nan"), float("inf")
    mean = torch.tensor([[nan] * 3, [0, inf, inf], [-inf] * 3], dtype=torch.float64)
    ones = torch.ones(3, dtype=torch.float64)
    passes = FusedPasses(mean, torch.ones_like(mean), ones, ones, sign=1, tie=1e-7)
    assert passes.choose(ones, None).tolist() == [0, 1, 0]


@pytest.mark.skipif(
    not INSTALLED or INTERPRETED or torch.cuda.is_available(),
    reason="needs Triton and no GPU, and is not for its interpreter",
)
@pytest.mark.parametrize(
    ("those", "files"),
    [
        ("fused_passes and (81 or infinite)", ("test_fusing.py",)),
        pytest.param("fused", ("test_fusing.py", "test_captured.py"), marks=pytest.mark.slow),
    ],
    ids=["few", "all"],
)
def test_fused_passes_are_right_in_the_interpreter(
    those: str, files: tuple[str, ...], tmp_path: Path
) -> None:
    """In a process of its own: Triton is told of the interpreter before it is imported."""
    paths = [str(Path(__file__).with_name(file)) for file in files]
    child = Child(interpret, those, files=paths, told=tmp_path / "told.txt")
    assert child.told(600) == 0, (tmp_path / "told.txt").read_text()[-4000:]
    child.end()


@pytest.mark.gpu
@pytest.mark.skipif(not ON_GPU, reason="needs Triton")
@SIZES
@TYPES
def test_fused_passes_on_a_gpu(arms: int, dtype: torch.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fastest(arms, dtype, GPU) is not Passes
    require_same(arms, dtype, GPU)
