"""Time-varying Gaussian-process bandits for BoTorch.

Forgetting discounts old measurements at three places of the formula ``mean = k~ᵀ (K ∘ D + N)⁻¹ y``:
*decay* of covariance (D), *inflation* of noise with age (N) and *retention* of rows. Every
algorithm here combines a decay, an inflation, a retention and an exploration.

Papers are cited by these tags:

* [B16] Bogunovic, Scarlett, Cevher, "Time-Varying Gaussian Process Bandit Optimization", 2016.
* [ET] Brunzema, von Rohr, Solowjow, Trimpe, "Event-Triggered Time-Varying Bayesian Optimization".
* [C17] Chowdhury, Gopalan, "On Kernelized Multi-armed Bandits", 2017.
* [W22] Deng, Zhou, Kim, Tewari, Gupta, Shroff, "Weighted Gaussian Process Bandits for
  Non-stationary Environments", 2022.
* [M] Mauduit, Berthier, Simonetto, "No-Regret Gaussian Process Optimization of Time-Varying
  Functions".

The most common names can be imported from here; submodules are imported on first access.
"""

import importlib
import pkgutil
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_tv.loop import Loop as Loop
    from botorch_tv.models import TimeVaryingGP as TimeVaryingGP
    from botorch_tv.simulation import run_study as run_study
    from botorch_tv.strategies import Box as Box
    from botorch_tv.strategies import Choice as Choice
    from botorch_tv.strategies import Context as Context
    from botorch_tv.strategies import Float as Float
    from botorch_tv.strategies import GPStrategy as GPStrategy
    from botorch_tv.strategies import Grid as Grid
    from botorch_tv.strategies import Integer as Integer
    from botorch_tv.strategies import Strategy as Strategy
    from botorch_tv.strategies.presets import *

__version__ = "0.1.0"
HOMES = {"Loop": "loop", "TimeVaryingGP": "models", "run_study": "simulation"}
HOMES |= dict.fromkeys(
    ("Box", "Choice", "Context", "Float", "GPStrategy", "Grid", "Integer", "Strategy"), "strategies"
)
"""Modules of the public names that are not presets."""


def preset_names() -> dict[str, list[str]]:
    """Names of every preset in papers and on the command line, by the name of its function.

    They are read from the source of the presets, because importing the presets takes seconds. A
    program that is shipped without source files imports them.
    """
    try:
        source = (pkgutil.get_data(__name__, "strategies/presets.py") or b"").decode()
    except OSError:
        from botorch_tv.strategies.listing import PRESETS

        return {function: [*preset.names] for function, preset in PRESETS.items()}
    found = re.findall(r'^@preset\(\s*"([^"]*)".*?^def (\w+)', source, re.DOTALL | re.MULTILINE)
    return {function: names.split(", ") for names, function in found}


if not TYPE_CHECKING:  # with __getattr__ a type checker would accept any name
    __all__ = sorted([*HOMES, *preset_names()])

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            package = sys.modules[__name__]
            raise AttributeError(f"botorch_tv has no {name!r}", name=name, obj=package)
        home = importlib.import_module(f"{__name__}.{HOMES.get(name, 'strategies')}")
        return globals().setdefault(name, getattr(home, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
