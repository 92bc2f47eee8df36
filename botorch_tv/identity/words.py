"""The words in which descriptions are written."""

from __future__ import annotations

from typing import Any

Description = Any
"""A JSON value: None, bool, int, float, str, or lists and dictionaries of these."""

TYPE = "type"
"""Key under which the description of an object names its class."""
CODE = "(code)"
"""Key under which stands what the code of an object does; no attribute can have this name."""
PROBES = "probes"
"""Key under which the description of an array has sums of its entries with signs."""
FORMER = {
    "Candidates": "DiscreteSearch",
    "Given": "FixedFunctions",
    "KernelSum": "RKHSFunctions",
    "Realised": "Realized",
}
"""What classes are called now whose names stand in older files."""
LATER: dict[str, dict[str, Description]] = {
    "Refit": {"decay": {}},
    "Box": {"parameters": None},
    "UpperConfidence": {"ties": "first"},
    "ExpectedImprovement": {"ties": "first", "incumbent": "posterior"},
    "ProbabilityOfImprovement": {"ties": "first", "incumbent": "posterior"},
    "BestMean": {"ties": "first"},
}
"""What fields that classes were given later stand for in descriptions that lack them: what was done
before, which is what their defaults do."""
