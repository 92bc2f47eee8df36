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
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch_tv.loop import Loop
    from botorch_tv.models import TimeVaryingGP
    from botorch_tv.simulation import run_study
    from botorch_tv.strategies import *

__all__ = [
    "Box",
    "Choice",
    "Float",
    "GPStrategy",
    "Grid",
    "Integer",
    "Loop",
    "Strategy",
    "TimeVaryingGP",
    "adaptive_gp_ucb",
    "bob_gp_ucb",
    "br_gp_ucb",
    "et_gp_ucb",
    "glr_gp_ucb",
    "gp_ei",
    "gp_pi",
    "gp_ts",
    "gp_ucb",
    "igp_ucb",
    "pe_gp_ucb",
    "r_gp_ucb",
    "r_perp",
    "random_search",
    "rexp3",
    "run_study",
    "sparq_gp_ucb",
    "sw_gp_ucb",
    "tv_bayesopt",
    "tv_gp_ucb",
    "ui_gp_ucb",
    "ui_tvbo",
    "w_dbo",
    "w_gp_ucb",
    "w_sparq_gp_ucb",
]
__version__ = "0.1.0"
ELSEWHERE = {"Loop": "loop", "TimeVaryingGP": "models", "run_study": "simulation"}
"""Modules of the names that are not in ``botorch_tv.strategies``."""


if not TYPE_CHECKING:  # with __getattr__ a type checker would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            here = sys.modules[__name__]
            raise AttributeError(f"botorch_tv has no {name!r}", name=name, obj=here)
        home = importlib.import_module(f"{__name__}.{ELSEWHERE.get(name, 'strategies')}")
        return globals().setdefault(name, getattr(home, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
