"""Keys of descriptions, and names and fields that have changed since older files."""

from __future__ import annotations

from typing import Any

Description = Any
"""A JSON value: None, bool, int, float, str, or lists and dictionaries of these."""

TYPE = "type"
"""Key under which the description of an object names its class."""
CODE = "(code)"
"""Key of the digests of an object's code; no attribute can have this name."""
PROBES = "probes"
"""Key of the weighted sums in the description of an array."""
FORMER = {
    "Candidates": "DiscreteSearch",
    "Given": "FixedFunctions",
    "KernelSum": "RKHSFunctions",
    "Realised": "Realized",
}
"""Present names of classes, by their names in older files."""
LATER: dict[str, dict[str, Description]] = {
    "Refit": {"decay": {}},
    "Box": {"parameters": None},
    "UpperConfidence": {"ties": "first"},
    "ExpectedImprovement": {"ties": "first", "incumbent": "posterior"},
    "ProbabilityOfImprovement": {"ties": "first", "incumbent": "posterior"},
    "BestMean": {"ties": "first"},
}
"""Fields added to classes later, with the values that they have in descriptions without them: the
defaults, which do what was done before."""
