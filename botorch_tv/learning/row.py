"""One hyperparameter of a vector: its entries, its bounds and its prior."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.utils.types import DEFAULT
from torch import Tensor

from botorch_tv.forgetting.base import Parameter
from botorch_tv.learning.densities import Prior
from botorch_tv.learning.refit import Free
from botorch_tv.validation import require

KNEE = 1e-3
"""The natural value c below which the scale is linear."""


@dataclass(frozen=True)
class ParameterRow:
    """A hyperparameter, of which there are j entries in the vector: several for lengthscales.

    Args:
        name: As the user knows it.
        free: How it is learned; None where it is not.
        given: What the user gave, per unit of the user's, `j`.
        least: Lower bound where the user gives none, `j`.
        most: Upper bound likewise, `j`.
        usual: Prior likewise.
        declared: What the decay says of it; None for what has no unit of time.
    """

    name: str
    free: Free | None
    given: Tensor
    least: Tensor
    most: Tensor
    usual: Prior | None
    declared: Parameter | None = None

    def __post_init__(self) -> None:
        lowest, highest = self.ends
        require(
            bool(((lowest <= self.given) & (self.given <= highest)).all()),
            f"Refit: {self.name} starts from {self.given.tolist()}, outside its bounds "
            f"{lowest.tolist()} and {highest.tolist()}; widen them by Free(lower=..., upper=...), "
            "or start inside.",
        )

    @property
    def ends(self) -> tuple[Tensor, Tensor]:
        """Bounds, `j` each; those of the decay's are per unit of the user's."""
        if self.free is None:
            return self.given, self.given
        low, high = self.free.lower, self.free.upper
        return (
            self.least if low is None else torch.full_like(self.least, low),
            self.most if high is None else torch.full_like(self.most, high),
        )

    @property
    def prior(self) -> Prior | None:
        """Its prior, if it has one."""
        if self.free is None:
            return None
        return self.usual if self.free.prior == DEFAULT else self.free.prior

    @property
    def told(self) -> bool:
        """Whether its prior is the user's, per unit of the user's."""
        return self.free is not None and self.free.prior != DEFAULT

    def entry(self, natural: Tensor) -> Tensor:
        """The entries of a vector that stand for natural values."""
        if self.declared is None:
            return natural.log()
        return torch.log1p(natural / KNEE) if self.declared.grows_from_zero else natural

    def natural(self, entry: Tensor) -> tuple[Tensor, Tensor]:
        """Natural values, and their derivatives by the entries."""
        if self.declared is None:
            return entry.exp(), entry.exp()
        if self.declared.grows_from_zero:
            return KNEE * torch.expm1(entry), KNEE * entry.exp()
        return entry, torch.ones_like(entry)

    def presumed(self, natural: Tensor) -> tuple[Tensor, Tensor | float]:
        """The quantity its prior is on, and its derivative with respect to the natural value."""
        if self.declared is None or self.declared.share is None:
            return natural, 1.0
        value = self.declared.presumed(self.declared.value(natural))
        return value, 1 - value

    def searched_ends(self, given: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of a search, `... x 1`: those declared hold in its unit, the user's in the user's.

        Args:
            given: What the user gave, as the search has it, `... x 1`.
            low: The lower bound likewise.
            high: The upper bound likewise.
        """
        if self.declared is None or self.free is None:
            return low, high
        ends = (self.free.lower, self.free.upper)
        if self.declared.share == "kept":  # whose natural value falls
            ends = ends[::-1]
        least, most = (self.entry(given.new_tensor(end)) for end in self.declared.natural_bounds())
        return (
            torch.minimum(given, least) if ends[0] is None else low,
            torch.maximum(given, most) if ends[1] is None else high,
        )
