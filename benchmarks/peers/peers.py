"""The peers and their packages."""

from __future__ import annotations

from typing import NamedTuple

LOOPS = "benchmarks.peers.loops"
BOTORCH = ("torch==2.13.0", "botorch==0.18.1")


class Entry(NamedTuple):
    """A peer.

    Attributes:
        loop: Its class, `module:name`.
        about: A description in a line.
        requirements: Packages of an environment of its own; empty for the library's environment.
        versions: Packages whose versions are recorded.
    """

    loop: str
    about: str
    requirements: tuple[str, ...] = ()
    versions: tuple[str, ...] = ("numpy",)


PEERS = {
    "random": Entry("benchmarks.peers.protocol:Random", "random search"),
    "adaptive": Entry(
        f"{LOOPS}.ours:Adaptive",
        "this library's adaptive_gp_ucb, without prior knowledge",
        versions=("botorch-tv", "torch"),
    ),
    "learning": Entry(
        f"{LOOPS}.ours:Learning",
        "this library's TV-GP-UCB with an event trigger and learned hyperparameters",
        versions=("botorch-tv", "torch"),
    ),
    "botorch-static": Entry(
        f"{LOOPS}.botorch_loops:Static", "SingleTaskGP, LogNEI", versions=("botorch", "torch")
    ),
    "botorch-time": Entry(
        f"{LOOPS}.botorch_loops:TimeAsInput",
        "SingleTaskGP with time as an input, fitted every round, UCB at the present",
        versions=("botorch", "torch"),
    ),
    "dbo-rule": Entry(
        f"{LOOPS}.botorch_loops:FittedDecay",
        "decay fitted by maximum likelihood every round, expected improvement (the rule of "
        "dbo-torch, which has no package)",
        versions=("botorch", "torch"),
    ),
    "optuna-tpe": Entry(f"{LOOPS}.optuna_loops:Tpe", "Optuna's TPESampler", versions=("optuna",)),
    "optuna-gp": Entry(f"{LOOPS}.optuna_loops:Gp", "Optuna's GPSampler", versions=("optuna",)),
    "w-dbo": Entry(
        f"{LOOPS}.wdbo:WDbo",
        "W-DBO of wdbo-algo",
        (*BOTORCH, "wdbo-algo==1.0.7", "gmpb==0.1.0"),
        ("wdbo-algo", "botorch", "torch"),
    ),
    "xopt": Entry(
        f"{LOOPS}.xopt_loop:TimeDependent",
        "Xopt's time-dependent UCB generator",
        ("torch==2.13.0", "xopt==3.2.2", "gmpb==0.1.0"),
        ("xopt", "botorch", "torch"),
    ),
    "pb2": Entry(
        f"{LOOPS}.pb2:Pb2",
        "the kernel and the rule of Ray Tune's PB2, given time",
        ("ray[tune]==2.60.0", "scikit-learn==1.9.1", "gmpb==0.1.0"),
        ("ray", "scikit-learn"),
    ),
    "ax-time": Entry(
        f"{LOOPS}.ax_loop:TimeFixed",
        "Ax's client, time as a parameter fixed at the present",
        versions=("ax-platform", "botorch", "torch"),
    ),
}
