# ruff: noqa: E501 (one line per preset)
"""Every strategy that the laws are tested on, with its description for the textbook.

A preset of the library joins with one line of ``LINES``, and a combination with one of ``PRESETS``:
``every_pair`` compares it with the textbook, and ``each_pair`` brings its code path to every law.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import pytest
from conformance import user_parts as own
from conformance.sparq_with_expert import Attended
from experts.by_the_book import window_starts
from gpytorch.kernels import Kernel
from oracles.expert import Consultant
from torch import Tensor

from botorch_tv.acquisition.exploration import (
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
)
from botorch_tv.acquisition.widths import (
    IGPUCB,
    AgnosticGPUCB,
    BayesEventTriggered,
    BayesResetting,
    BayesTV,
    ClosedForm,
    Heteroscedastic,
    Logarithmic,
)
from botorch_tv.experts import Refresh, SparQ, Windows
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    GLRTrigger,
    Markov,
    PeriodicReset,
    SlidingWindow,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import (
    GPStrategy,
    Strategy,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ei,
    gp_ucb,
    listing,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    w_gp_ucb,
)

Book = Callable[[float], dict[str, Any]]  # noise -> arguments of oracles.dense.DenseBandit
Line = tuple[Book, dict[str, Any]]
DIM = 2  # of every grid; the Bayes widths depend on it


class Preset(NamedTuple):
    """A name, the strategy of (kernel, noise), and the textbook's arguments of (noise)."""

    name: str
    strategy: Callable[[Kernel | Tensor, float], Strategy]
    book: Book

    def by(self, kernel: Kernel | Tensor, noise: float, engine: str) -> Strategy:
        """The strategy, computed by one of its recursions."""
        return replace(self.strategy(kernel, noise), inference=engine)

    @property
    def takes_noise(self) -> bool:
        """Whether an observation may have a variance of its own."""
        return True

    @property
    def draws(self) -> bool:
        """Whether choices take random numbers."""
        return self.samples or self.book(1.0).get("exploration") in ("uniform", "greedy", "forced")

    @property
    def samples(self) -> bool:
        """Whether functions are drawn."""
        return self.book(1.0).get("exploration") in ("thompson", "top two")

    @property
    def compared(self) -> tuple[str, ...]:
        """Numbers of a suggestion that the textbook has; not all explorations have a width."""
        widths = self.book(1.0).get("exploration", "ucb") not in ("ei", "pi", "uniform")
        return ("mean", "sd", "time", *(("sqrt_beta",) if widths else ()))

    @property
    def maximize(self) -> bool:
        return self.book(1.0).get("maximize", True)

    @property
    def triggers(self) -> bool:
        return self.rules == (("trigger", 0.1),)

    @property
    def rules(self) -> tuple[tuple[Any, ...], ...]:
        """Of retention."""
        retention = self.book(1.0).get("retention", ("all",))
        return retention if isinstance(retention[0], tuple) else (retention,)

    @property
    def composed(self) -> bool:
        """Whether several rules of retention are combined, or a rule is not the package's."""
        return isinstance(self.book(1.0).get("retention", ("all",))[0], tuple)

    @property
    def consults(self) -> bool:
        """Whether it asks an expert."""
        return "consultant" in self.book(1.0)

    @property
    def from_the_log(self) -> bool:
        """Whether every recursion regresses on the log, since rank-one steps do not apply."""
        parts = self.book(1.0)
        decay = parts.get("decay", ("static",))[0]
        slides = any(rule[0] == "window" for rule in self.rules) and decay != "static"
        by_time = any(rule[-1] == "time" for rule in self.rules)
        jumps = decay in ("quasi-periodic", "periodic")
        return "inflation" in parts or by_time or slides or jumps or self.consults

    @property
    def recursions(self) -> tuple[str, ...]:
        """The ``RECURSIONS`` that differ; see ``test_recursions.py``."""
        sampled = self.book(1.0).get("exploration") == "thompson"
        return ENGINES if self.from_the_log or sampled else RECURSIONS

    @property
    def path(self) -> tuple[str | bool, ...]:
        """Presets of equal path execute much the same lines of the library."""
        parts = self.book(1.0)
        slides = self.rules[0][0] == "window" and not self.composed
        kind = "moves" if "decay" in parts else "slides" if slides else "stays"
        kind = f"composed, {kind}" if self.composed else kind
        exploration = {"ei": "improvement", "pi": "improvement"}
        return (
            "expert" if self.consults else "log" if self.from_the_log else kind,
            exploration.get(parts.get("exploration", "ucb"), parts.get("exploration", "ucb")),
            self.triggers,
            parts.get("mean") == "estimated",
        )


class Beside(Preset):
    """An adaptive strategy, which no textbook of one process describes.

    The laws that do not apply to it:

    - law 2: its members have textbooks of their own (``tests/gp/mixture``, ``test_adaptive_model``);
    - law 3: it integrates over scale and mean, so that no limit is GP-UCB;
    - law 5 in float32, and given noise variances: it refuses both;
    - different draws of the trials in the first rounds: all trials fill the domain alike;
    - a default time one after the newest: it takes the usual time between measurements;
    - no waiting for a device: it looks whether its units are settled.
    """

    @property
    def recursions(self) -> tuple[str, ...]:
        return ("auto",)

    @property
    def takes_noise(self) -> bool:
        return False

    def by(self, kernel: Kernel | Tensor, noise: float, engine: str) -> Strategy:
        return self.strategy(kernel, noise)


def logarithmic(t: int, g: float, gbar: float) -> float:
    return math.sqrt(0.4 * math.log(4.0 * t))


def default_logarithmic(t: int, g: float, gbar: float) -> float:
    return math.sqrt(0.8 * math.log(4.0 * t))


def bayes(delta: float, numerator: float, factor: float) -> Callable[[int, float, float], float]:
    """[B16] (19), (16) and [ET] Theorem 1 at r = 1, a1 = 2, b1 = 3.

    They differ in the factors of t^2 / delta in both logarithms.
    """

    def sqrt_beta(t: int, g: float, gbar: float) -> float:
        inner = math.sqrt(math.log(DIM * 2.0 * factor * math.pi**2 * t**2 / delta))
        first = 2.0 * math.log(numerator * math.pi**2 * t**2 / delta)
        return math.sqrt(first + 2.0 * DIM * math.log(1.0 * DIM * 3.0 * t**2 * inner))

    return sqrt_beta


def chowdhury(B: float, R: float, delta: float) -> Callable[[int, float, float], float]:
    return lambda t, g, gbar: B + R * math.sqrt(2.0 * (g + 1.0 + math.log(1.0 / delta)))


def book(**arguments: Any) -> Book:
    """Arguments that do not depend on the noise; the narrow logarithmic width by default."""
    gains = {"gains": "sqrt_beta" in arguments}
    return lambda noise: {"sqrt_beta": logarithmic} | gains | arguments


def deng(noise: float) -> dict[str, Any]:
    def sqrt_beta(t: int, g: float, gbar: float) -> float:
        return 0.5 + 0.1 / math.sqrt(noise) * math.sqrt(2.0 * math.log(1.0 / 0.1) + 2.0 * gbar)

    return {"inflation": ("exponential", 0.93), "sqrt_beta": sqrt_beta}


def mauduit(t: int, g: float, gbar: float) -> float:
    return math.sqrt(2.0 * (math.log(2.0 / 0.1) + g)) + 0.5


def agnostic(t: int, g: float, gbar: float) -> float:
    return math.sqrt(2.0 * 0.5**2 + 300.0 * g * math.log(t / 0.1) ** 3)


def closed_form(t: int, g: float, gbar: float) -> float:
    """IGP-UCB with the order (ln n)^(d+1) of the gain of n = t - 1 observations."""
    order = math.log(t - 1) ** (DIM + 1) if t > 1 else 0.0
    return chowdhury(0.5, 0.1, 0.1)(t, order, gbar)


NARROW = Logarithmic(c1=0.4, c2=4.0)
THEORY = {"delta": 0.1, "r": 1.0, "a1": 2.0, "b1": 3.0}


def composed(**parts: Any) -> Callable[[Kernel | Tensor, float], Strategy]:
    """GP-UCB with some of its parts replaced."""
    return lambda k, n: GPStrategy(kernel=k, noise=n, **({"width": NARROW} | parts))


def attended(**parts: Any) -> Callable[[Kernel | Tensor, float], Strategy]:
    """SparQ-GP-UCB with an expert that answers some of its questions.

    It asks at the greedy points, as the textbook does; ``tests/experts`` plays random subsets.
    """
    parts = {"refresh": Refresh(steps=0), "width": NARROW} | parts
    return lambda k, n: Attended(kernel=k, noise=n, **parts)


def line(book: Book, **arguments: Any) -> Line:
    """Of a listed preset: its description for the textbook, and arguments to test it with."""
    return book, arguments


def listed(name: str) -> Preset:
    """A listed preset; an expert answers some of its questions."""
    entry, (book, arguments) = listing.PRESETS[name], LINES[name]

    def strategy(kernel: Kernel | Tensor, noise: float) -> Strategy:
        made = entry.make(kernel=kernel, noise=noise, **arguments)
        parts = {field.name: getattr(made, field.name) for field in fields(made)}
        return Attended(**parts) if isinstance(made, SparQ) else made

    return Preset(entry.names[0], strategy, book)


def missing() -> list[str]:
    """What must be added here for presets without a line, and the reverse."""
    tested = LINES.keys() | OTHERS.keys()
    hint = "add a line to LINES, or name the module of its oracle in OTHERS"
    gone = [f"{name} is not listed in botorch_tv" for name in tested - listing.PRESETS.keys()]
    return [f"{name} has no test: {hint}" for name in listing.PRESETS.keys() - tested] + gone


WINDOWS = window_starts(1000, 1.5, 0.3).__contains__

# fmt: off
LINES: dict[str, Line] = {  # of the presets that the textbook describes
    "gp_ucb": line(book(sqrt_beta=default_logarithmic)),
    "igp_ucb": line(book(sqrt_beta=chowdhury(0.5, 0.1, 0.1)), B=0.5, R=0.1, delta=0.1),
    "gp_ts": line(book(exploration="thompson", sqrt_beta=chowdhury(0.5, 0.1, 0.05)), B=0.5, R=0.1, delta=0.1),
    "gp_ei": line(book(exploration="ei")),
    "gp_pi": line(book(exploration="pi")),
    "random_search": line(book(exploration="uniform")),
    "r_gp_ucb": line(book(retention=("period", 11, "rounds")), period=11, width=NARROW),
    "br_gp_ucb": line(book(retention=("period", 17, "rounds"), sqrt_beta=chowdhury(0.5, 0.1, 0.1)), period=17, B=0.5, R=0.1, delta=0.1),
    "sw_gp_ucb": line(book(retention=("window", 13, "rounds")), window=13, width=NARROW),
    "tv_gp_ucb": line(book(decay=("markov", 0.03)), epsilon=0.03, width=NARROW),
    "tv_bayesopt": line(book(decay=("periodic", 0.03, 7.5, 0.8)), epsilon=0.03, cycle=7.5, cycle_lengthscale=0.8, width=NARROW),
    "ui_tvbo": line(book(decay=("wiener", 0.03)), sigma_w2=0.03, width=NARROW),
    "w_gp_ucb": line(deng, gamma=0.93, B=0.5, R=0.1, delta=0.1),
    "ui_gp_ucb": line(book(inflation=("injection", 1.0, 1.0), sqrt_beta=mauduit), alpha=1.0, B=0.5, delta=0.1),
    "et_gp_ucb": line(book(retention=("trigger", 0.1)), delta=0.1, width=NARROW),
    "glr_gp_ucb": line(book(exploration="forced", retention=(("glr", 0.1, 64),)), chance=0.3, width=NARROW),
    "sparq_gp_ucb": line(book(consultant=Consultant(lambda t: True), sqrt_beta=mauduit), steps=0, B=0.5, delta=0.1),
    "w_sparq_gp_ucb": line(book(inflation=("injection", 1.5, 1.0), consultant=Consultant(WINDOWS)), alpha=1.5, alpha_tilde=0.3, steps=0, width=NARROW),
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {  # of all others: the module of their own oracle
    "w_dbo": ("forgetting/test_relevance.py", {"epsilon": 0.2, "alpha": 3.0}),
    "pe_gp_ucb": ("strategies/test_committee.py", {"epsilons": (0.0, 0.2)}),
    "bob_gp_ucb": ("strategies/test_committee.py", {"windows": (2, 4), "block": 4, "horizon": 20}),
    "r_perp": ("strategies/test_committee.py", {"period": 9, "beta": 4.0}),
    "rexp3": ("strategies/test_exp3.py", {"period": 9, "low": -1.0, "high": 1.0}),
    "adaptive_gp_ucb": ("gp/mixture/test_bank.py", {}),
}
PRESETS: list[Preset] = [
    *map(listed, LINES),
    # Parts of the named algorithms with other arguments.
    Preset("GLR trigger", composed(retention=GLRTrigger(0.5, longest=5)), book(retention=(("glr", 0.5, 5),))),
    Preset("Markov + reset + GLR trigger", composed(decay=Markov(0.05), retention=(PeriodicReset(11), GLRTrigger(0.9))), book(decay=("markov", 0.05), retention=(("period", 11, "rounds"), ("glr", 0.9, 64)))),
    Preset("UI-GP-UCB root", lambda k, n: ui_gp_ucb(kernel=k, noise=n, alpha=0.5, kappa=0.7, width=NARROW), book(inflation=("injection", 0.5, 0.7))),
    Preset("W-SparQ-GP-UCB even", attended(refresh=Refresh(Windows(1.5, 0.3), c_Q=2.0, steps=0), maximize=False), book(consultant=Consultant(WINDOWS, c_Q=2.0), maximize=False)),
    # The widths of the theorems.
    Preset("agnostic GP-UCB", lambda k, n: gp_ucb(kernel=k, noise=n, width=AgnosticGPUCB(B=0.5, delta=0.1)), book(sqrt_beta=agnostic)),
    Preset("R-GP-UCB Bayes", lambda k, n: r_gp_ucb(kernel=k, noise=n, period=11, width=BayesResetting(**THEORY)), book(retention=("period", 11, "rounds"), sqrt_beta=bayes(0.1, 2 / 3, 2 / 3))),
    Preset("TV-GP-UCB Bayes", lambda k, n: tv_gp_ucb(kernel=k, noise=n, epsilon=0.03, width=BayesTV(**THEORY)), book(decay=("markov", 0.03), sqrt_beta=bayes(0.1, 1 / 2, 1 / 2))),
    Preset("ET-GP-UCB Bayes", lambda k, n: et_gp_ucb(kernel=k, noise=n, width=BayesEventTriggered(**THEORY)), book(retention=("trigger", 0.1), sqrt_beta=bayes(0.1, 4 / 3, 4 / 3))),
    Preset("ET-GP-UCB realised gain", lambda k, n: et_gp_ucb(kernel=k, noise=n, width=IGPUCB(B=0.5, R=0.1, delta=0.1)), book(retention=("trigger", 0.1), sqrt_beta=chowdhury(0.5, 0.1, 0.1))),
    Preset("GP-UCB closed-form gain", lambda k, n: gp_ucb(kernel=k, noise=n, width=IGPUCB(B=0.5, R=0.1, delta=0.1, gain=ClosedForm(kernel="se"))), book(sqrt_beta=closed_form)),
    # Combinations that no paper names.
    Preset("Markov + window", composed(decay=Markov(0.05), retention=SlidingWindow(13)), book(decay=("markov", 0.05), retention=("window", 13, "rounds"))),
    Preset("Markov + trigger", composed(decay=Markov(0.05), retention=EventTrigger(0.1)), book(decay=("markov", 0.05), retention=("trigger", 0.1))),
    Preset("Wiener + trigger", composed(decay=Wiener(0.02), retention=EventTrigger(0.1)), book(decay=("wiener", 0.02), retention=("trigger", 0.1))),
    Preset("Wiener + reset", composed(decay=Wiener(0.05), retention=PeriodicReset(11)), book(decay=("wiener", 0.05), retention=("period", 11, "rounds"))),
    Preset("injection + trigger", composed(inflation=UncertaintyInjection(1.0, kappa=0.5), retention=EventTrigger(0.1)), book(inflation=("injection", 1.0, 0.5), retention=("trigger", 0.1))),
    Preset("exponential weights + reset + gain", composed(inflation=ExponentialWeights(0.9), retention=PeriodicReset(11), width=Heteroscedastic(B=0.5, delta=0.1)), book(inflation=("exponential", 0.9), retention=("period", 11, "rounds"), sqrt_beta=mauduit)),
    # Retention by time.
    Preset("window by time", composed(retention=SlidingWindow(12.5, by="time")), book(retention=("window", 12.5, "time"))),
    Preset("Wiener + reset by time", composed(decay=Wiener(0.05), retention=PeriodicReset(11.0, by="time")), book(decay=("wiener", 0.05), retention=("period", 11.0, "time"))),
    # Other explorations.
    Preset("EI + window", composed(exploration=ExpectedImprovement(), retention=SlidingWindow(13)), book(exploration="ei", retention=("window", 13, "rounds"))),
    Preset("EI + Markov", composed(exploration=ExpectedImprovement(), decay=Markov(0.05)), book(exploration="ei", decay=("markov", 0.05))),
    Preset("EI + Wiener + reset", composed(exploration=ExpectedImprovement(), decay=Wiener(0.05), retention=PeriodicReset(11)), book(exploration="ei", decay=("wiener", 0.05), retention=("period", 11, "rounds"))),
    Preset("PI + trigger", composed(exploration=ProbabilityOfImprovement(), retention=EventTrigger(0.1)), book(exploration="pi", retention=("trigger", 0.1))),
    Preset("PI + window by time", composed(exploration=ProbabilityOfImprovement(), retention=SlidingWindow(12.5, by="time")), book(exploration="pi", retention=("window", 12.5, "time"))),
    Preset("Thompson + Markov", composed(exploration=Thompson(), decay=Markov(0.05)), book(exploration="thompson", decay=("markov", 0.05))),
    Preset("Thompson + Wiener", composed(exploration=Thompson(), decay=Wiener(0.02)), book(exploration="thompson", decay=("wiener", 0.02))),
    Preset("Thompson + window", composed(exploration=Thompson(), retention=SlidingWindow(13)), book(exploration="thompson", retention=("window", 13, "rounds"))),
    Preset("Thompson + Markov + window", composed(exploration=Thompson(), decay=Markov(0.05), retention=SlidingWindow(13)), book(exploration="thompson", decay=("markov", 0.05), retention=("window", 13, "rounds"))),
    Preset("Thompson + trigger", composed(exploration=Thompson(), retention=EventTrigger(0.1)), book(exploration="thompson", retention=("trigger", 0.1))),
    Preset("Thompson + exponential weights", composed(exploration=Thompson(), inflation=ExponentialWeights(0.9)), book(exploration="thompson", inflation=("exponential", 0.9))),
    # Where less is better.
    Preset("GP-UCB downwards", lambda k, n: gp_ucb(kernel=k, noise=n, width=NARROW, maximize=False), book(maximize=False)),
    Preset("ET-GP-UCB downwards", lambda k, n: et_gp_ucb(kernel=k, noise=n, width=NARROW, maximize=False), book(retention=("trigger", 0.1), maximize=False)),
    Preset("GP-EI downwards", lambda k, n: gp_ei(kernel=k, noise=n, maximize=False), book(exploration="ei", maximize=False)),
    # Combined rules, and parts that users write.
    Preset("Wiener + reset + trigger", composed(decay=Wiener(0.05), retention=(PeriodicReset(11), EventTrigger(0.1))), book(decay=("wiener", 0.05), retention=(("period", 11, "rounds"), ("trigger", 0.1)))),
    Preset("window by time + reset + trigger", composed(retention=(SlidingWindow(9.5, by="time"), PeriodicReset(11), EventTrigger(0.1))), book(retention=(("window", 9.5, "time"), ("period", 11, "rounds"), ("trigger", 0.1)))),
    Preset("sessions", composed(retention=own.Sessions(2.75)), book(retention=(("sessions", 2.75),))),
    Preset("agreeing", composed(retention=own.Agreeing(1.0)), book(retention=(("agreeing", 1.0),))),
    Preset("near best estimated mean", composed(retention=own.NearBest(1.5), mean="estimated"), book(retention=(("near best", 1.5),), mean="estimated")),
    Preset("cumulative sum", composed(retention=own.CumulativeSum(1.0, 2.0)), book(retention=(("cusum", 1.0, 2.0),))),
    Preset("damped drift + cumulative sum", composed(decay=own.DampedDrift(), retention=own.CumulativeSum(1.0, 2.0)), book(decay=("damped", 0.2, 3.0), retention=(("cusum", 1.0, 2.0),))),
    Preset("replaced", composed(retention=own.Replaced()), book(retention=(("replaced",),))),
    Preset("Markov + thinned", composed(decay=Markov(0.05), retention=own.Thinned(5)), book(decay=("markov", 0.05), retention=(("thinned", 5),))),
    Preset("Wiener + surprise + restart", composed(decay=Wiener(0.05), retention=(own.Surprise(1.0), own.Restart(6))), book(decay=("wiener", 0.05), retention=(("surprise", 1.0), ("restart", 6)))),
    Preset("Wiener + blank estimated mean", composed(decay=Wiener(0.05), retention=own.Blank(7), mean="estimated"), book(decay=("wiener", 0.05), retention=(("blank", 7),), mean="estimated")),
    Preset("panic + restart", composed(retention=(own.Panic(1.5), own.Restart(3))), book(retention=(("panic", 1.5), ("restart", 3)))),
    Preset("quasi-periodic", composed(decay=own.QuasiPeriodic()), book(decay=("quasi-periodic", 0.05, 0.6))),
    Preset("half-life", composed(inflation=own.HalfLife(8.0)), book(inflation=("exponential", 0.5**0.125))),
    Preset("directed", composed(exploration=own.Directed()), book(exploration="directed")),
    Preset("directed + Markov downwards", composed(exploration=own.Directed(), decay=Markov(0.05), maximize=False), book(exploration="directed", decay=("markov", 0.05), maximize=False)),
    Preset("top two", composed(exploration=own.TopTwo()), book(exploration="top two")),
    Preset("greedy + trigger", composed(exploration=own.EpsilonGreedy(), retention=EventTrigger(0.1)), book(exploration="greedy", retention=("trigger", 0.1))),
    # Prior means.
    Preset("GP-UCB above 0.7", lambda k, n: gp_ucb(kernel=k, noise=n, width=NARROW, mean=0.7), book(mean=0.7)),
    Preset("TV-GP-UCB below 0.7", lambda k, n: tv_gp_ucb(kernel=k, noise=n, epsilon=0.03, width=NARROW, mean=-0.7, maximize=False), book(decay=("markov", 0.03), mean=-0.7, maximize=False)),
    Preset("GP-UCB estimated mean", lambda k, n: gp_ucb(kernel=k, noise=n, width=NARROW, mean="estimated"), book(mean="estimated")),
    Preset("TV-GP-UCB estimated mean", lambda k, n: tv_gp_ucb(kernel=k, noise=n, epsilon=0.03, width=NARROW, mean="estimated"), book(decay=("markov", 0.03), mean="estimated")),
    Preset("ET-GP-UCB estimated mean", lambda k, n: et_gp_ucb(kernel=k, noise=n, width=NARROW, mean="estimated"), book(retention=("trigger", 0.1), mean="estimated")),
    Preset("SW-GP-UCB estimated mean", lambda k, n: sw_gp_ucb(kernel=k, noise=n, window=13, width=NARROW, mean="estimated"), book(retention=("window", 13, "rounds"), mean="estimated")),
    Preset("WGP-UCB estimated mean", lambda k, n: w_gp_ucb(kernel=k, noise=n, gamma=0.93, B=0.5, R=0.1, mean="estimated"), lambda noise: deng(noise) | {"mean": "estimated"}),
    Preset("EI + Markov + window estimated mean downwards", composed(exploration=ExpectedImprovement(), decay=Markov(0.05), retention=SlidingWindow(13), mean="estimated", maximize=False), book(exploration="ei", decay=("markov", 0.05), retention=("window", 13, "rounds"), mean="estimated", maximize=False)),
    Preset("Thompson + trigger estimated mean", composed(exploration=Thompson(), retention=EventTrigger(0.1), mean="estimated"), book(exploration="thompson", retention=("trigger", 0.1), mean="estimated")),
]

SMALL = Bank(rates=(0.0, 0.05), hazards=(0.0, 0.05), lengthscales=(0.2, 0.5), noise_ratios=(0.02,))
ADAPTIVE = {"bank": SMALL, "starts": 4, "width": NARROW}
BESIDE = [
    Beside("adaptive", lambda k, n: adaptive_gp_ucb(**ADAPTIVE), book()),
    Beside("adaptive downwards", lambda k, n: adaptive_gp_ucb(**ADAPTIVE, maximize=False), book(maximize=False)),
    Beside("adaptive, Thompson", lambda k, n: replace(adaptive_gp_ucb(**ADAPTIVE), exploration=Thompson()), book(exploration="thompson")),
]
# fmt: on

BY_NAME = {preset.name: preset for preset in PRESETS}
CHOOSING = [preset for preset in PRESETS if not preset.draws]  # the same arm every time
DRAWING = [preset for preset in PRESETS if preset.draws]
ENGINES = ("exact", "features")
# On small grids "auto" is a recursion over arms, other than "features".
RECURSIONS = ("exact", "auto", "features")


def one_per(key: Callable[[Preset], Any], presets: Iterable[Preset]) -> list[Preset]:
    """The first preset of every kind."""
    return list({key(preset): preset for preset in reversed([*presets])}.values())[::-1]


def each_pair(
    turn: int,
    presets: Iterable[Preset] = PRESETS,
    beside: Iterable[Preset] = (),
    short: bool = False,
) -> pytest.MarkDecorator:
    """Parametrises ``preset`` and ``engine`` by :func:`pairs`, and all of ``beside``."""
    chosen = [*pairs(turn, presets, short), *((preset, "auto") for preset in beside)]
    return pytest.mark.parametrize(("preset", "engine"), chosen, ids=map(pair_id, chosen))


def pair_id(pair: tuple[Preset, str]) -> str:
    preset, engine = pair
    return preset.name if preset in BESIDE else f"{preset.name}-{engine}"


def pairs(
    turn: int, presets: Iterable[Preset] = PRESETS, short: bool = False
) -> list[tuple[Preset, str]]:
    """Every path; each recursion of the paths that explore by an upper bound, unless ``short``.

    Other explorations see only the prediction of a recursion, so one recursion serves. The presets
    of a path stand for it in turn: another ``turn`` brings other presets and recursions.
    """
    chosen = []
    for path, on_path in by_path(presets).items():
        recursions = on_path[0].recursions
        count = 1 if short or path[1] != "ucb" else len(recursions)
        for number in range(turn * count, (turn + 1) * count):
            chosen.append((on_path[number % len(on_path)], recursions[number % len(recursions)]))
    return chosen


each_path = partial(each_pair, short=True)
"""Every path with one recursion, for laws in which the recursions have little part."""


one_per_path = pytest.mark.few(1, per=lambda case: case["preset"].path)
"""Of :func:`each_pair`, the default tier runs a recursion of each path, in turn."""


def every_pair(presets: Iterable[Preset]) -> pytest.MarkDecorator:
    """Parametrises ``preset`` and ``engine``: every preset, and every recursion of every path.

    The presets of a path take its recursions in turn.
    """
    chosen = []
    for on_path in by_path(presets).values():
        recursions = on_path[0].recursions
        for number in range(max(len(on_path), len(recursions))):
            preset = on_path[number] if number < len(on_path) else on_path[0]
            chosen.append((preset, recursions[number % len(recursions)]))
    return pytest.mark.parametrize(("preset", "engine"), chosen, ids=map(pair_id, chosen))


def by_path(presets: Iterable[Preset]) -> dict[tuple[str | bool, ...], list[Preset]]:
    """The presets of every path."""
    found: dict[tuple[str | bool, ...], list[Preset]] = {}
    for preset in presets:
        found.setdefault(preset.path, []).append(preset)
    return found
