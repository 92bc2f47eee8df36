"""Numbers that are none, or outside of their limits, wherever a number is an argument."""

from functools import partial

import numpy as np
import pytest
import torch
from bad_input.rows import INF, NAN, numbers, refuses, replacing
from gpytorch.kernels import RBFKernel

from botorch_tv import theory
from botorch_tv.acquisition import LatticeSets, widths
from botorch_tv.experts import Refresh, Windows, sparq_gp_ucb
from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Smooth,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.learning import Refit
from botorch_tv.loop import Loop
from botorch_tv.simulation import (
    AbruptWorld,
    DriftWorld,
    MarkovWorld,
    PanelWorld,
    PowerLawWorld,
    SineWorld,
    StaticWorld,
    run_study,
)
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.worlds.grid import GaussianDraw, RKHSFunctions, SmoothedDraw
from botorch_tv.strategies import Box, Grid, MultiStart, et_gp_ucb, gp_ucb
from botorch_tv.test_functions import DriftingAckley, MarkovFunction
from botorch_tv.test_functions.drifting import Orbit

EYE = torch.eye(3, dtype=torch.float64)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
KERNEL, LINE = RBFKernel().double(), Grid.regular(5, 1)
WHOLE, AT_LEAST = (0, -3, 0.5, NAN, INF), "an integer of at least "
ONE = AT_LEAST + "1"
RATE, CHANCE = (-0.1, 1.1, NAN, INF), (0.0, 1.0, -0.1, NAN)
POSITIVE, SIZE = (0, -1.0, NAN, INF, 1e101), (-1.0, NAN, INF, 1e101)
FINITE, UNIT, STRICTLY = "positive and finite", "[0, 1]", "strictly between 0 and 1"
FROM, UP_TO, SHARE, NOT_NEGATIVE = "[1e-100, 1e100]", "[0, 1e100]", "[1e-100, 1)", "at least 0"

BAYES = {"delta": 0.1, "r": 1.0, "a1": 1.0, "b1": 1.0}
NORM = {"B": 1.0, "R": 0.1, "delta": 0.1}
PARTS = {
    "Markov epsilon": (Markov, RATE, UNIT, "0 keeps the obj"),
    "Wiener sigma_w2": (Wiener, SIZE, UP_TO, "0 keeps the obj"),
    "Smooth time_lengthscale": (Smooth, POSITIVE, FROM, "length of time"),
    "Smooth nu": (partial(Smooth, 7.0), (0.5, 2, NAN), "1.5, 2.5 or inf", "Markov"),
    "ExponentialWeights gamma": (ExponentialWeights, (0.0, -0.5, 1.01, NAN), "(0, 1]", "1 forget"),
    "UncertaintyInjection alpha": (UncertaintyInjection, (-0.5, NAN, INF), NOT_NEGATIVE, "usual"),
    "kappa": (partial(UncertaintyInjection, 1.0), (-0.5, NAN, INF), NOT_NEGATIVE, "1 is usual"),
    "PeriodicReset": (PeriodicReset, (*WHOLE, 2.5), ONE, "by='time'"),
    "SlidingWindow": (SlidingWindow, (*WHOLE, 2.5), ONE, "by='time'"),
    "reset by time": (
        lambda v: PeriodicReset(v, by="time"),
        (0.0, -3.0, NAN),
        "positive",
        "rounds",
    ),
    "window by time": (lambda v: SlidingWindow(v, by="time"), (0.0, -3.0, NAN), "positive", "rou"),
    "EventTrigger delta": (EventTrigger, CHANCE, STRICTLY, "0.1"),
    "confirm": (lambda v: ConfirmedTrigger(confirm=v), (0, -1, 1.5), ONE),
    "MarkovKernel epsilon": (MarkovKernel, (-0.1, 1.1, NAN, 1 - 1e-8), "1 - 1e-6", "static"),
    "WienerKernel sigma_w2": (WienerKernel, (-0.1, NAN, INF), UP_TO, "static"),
    "Logarithmic c1": (lambda v: widths.Logarithmic(c1=v), SIZE, UP_TO, "never explores"),
    "Logarithmic c2": (lambda v: widths.Logarithmic(c2=v), POSITIVE, FROM, "papers use 4"),
    "Constant": (widths.Constant, SIZE, UP_TO, "√beta"),
    "BayesTV delta": (replacing(widths.BayesTV, "delta", **BAYES), CHANCE, SHARE, "0.1"),
    "BayesTV r": (replacing(widths.BayesTV, "r", **BAYES), POSITIVE, FROM),
    "Resetting a1": (replacing(widths.BayesResetting, "a1", **BAYES), POSITIVE, FROM, "slopes"),
    "Event b1": (replacing(widths.BayesEventTriggered, "b1", **BAYES), POSITIVE, FROM, "slop"),
    "Finite arms": (
        lambda v: widths.BayesFinite(0.1, v),
        (0, -3, NAN),
        "[1, 1e100]",
        "number of arms",
    ),
    "Lattice L": (lambda v: LatticeSets(1.0, v), (0.0, NAN), FINITE, "Theorem 4"),
    "Lattice most": (lambda v: LatticeSets(1.0, 1.0, most=v), WHOLE, ONE, "whole"),
    "IGPUCB B": (replacing(widths.IGPUCB, "B", **NORM), SIZE, UP_TO, "norm of f"),
    "IGPUCB R": (replacing(widths.IGPUCB, "R", **NORM), SIZE, UP_TO, "standard deviation"),
    "IGPUCB delta": (replacing(widths.IGPUCB, "delta", **NORM), CHANCE, SHARE, "0.1"),
    "WGPUCB noise": (replacing(widths.WGPUCB, "noise", **NORM), POSITIVE, FROM, "variance"),
    "Agnostic B": (replacing(widths.AgnosticGPUCB, "B", delta=0.1), SIZE, UP_TO, "norm of f"),
    "Heteroscedastic": (replacing(widths.Heteroscedastic, "delta", B=1.0), CHANCE, SHARE, "0.1"),
    "Fixed gain": (widths.Fixed, SIZE, UP_TO, "[C17]"),
    "Greedy noise": (lambda v: widths.Greedy.of(EYE, v, 3), (0.0, NAN), FINITE, "variance"),
    "Greedy horizon": (lambda v: widths.Greedy.of(EYE, 0.1, v), WHOLE, ONE, "rounds"),
    "Windows alpha": (Windows, (0, -1.0, NAN, INF), FINITE),
    "Refresh c_Q": (lambda v: Refresh(c_Q=v), (0, -1.0, NAN, INF), FINITE, "1 is usual"),
    "Refit every": (lambda v: Refit(every=v), WHOLE, ONE, "fits"),
    "Refit least": (lambda v: Refit(least=v), WHOLE, ONE, "number of observa"),
    "Orbit period": (Orbit, (0, -1.0, NAN, INF), FINITE, "100 is usual"),
    "Orbit reach": (lambda v: Orbit(reach=v), (0, -1.0, 1.1, NAN), "(0, 1]", "0.8 is usual"),
    "points": (lambda v: Grid.regular(v, 2), WHOLE, ONE, "per dimension"),
    "dim": (lambda v: Grid.regular(3, v), WHOLE, ONE, "dimension"),
    "context_dim": (lambda v: Box(CUBE, context_dim=v), (-1, 1.5), AT_LEAST + "0", "0 for none"),
    "pending": (
        lambda v: Loop(gp_ucb(kernel=EYE, noise=0.1), Grid.regular(3, 1), pending=v),
        (0, 1.5),
        ONE,
    ),
}

GIVEN = {"kernel": KERNEL, "noise": 0.02}
NOISE = ((0.0, -0.02, NAN, INF), FINITE, "1e-6")
PARTS |= {
    "noise": (replacing(gp_ucb, "noise", **GIVEN), *NOISE),
    "noise beside an expert": (replacing(sparq_gp_ucb, "noise", **GIVEN), *NOISE),
    "confirmations": (replacing(et_gp_ucb, "confirm", **GIVEN), (-1, 1.5), AT_LEAST + "0"),
    "mean": (replacing(gp_ucb, "mean", **GIVEN), (NAN, INF), "finite", "'estimated'"),
}

DOC = "docstring"
THEORY = {
    "reset_period epsilon": (lambda v: theory.reset_period(v, 10), RATE, UNIT, DOC),
    "reset_period horizon": (lambda v: theory.reset_period(0.1, v), WHOLE, ONE, DOC),
    "budget": (lambda v: theory.budget_period(10, v, 1.0), (0, -1.0, NAN, INF), FINITE, DOC),
    "rexp3 budget": (lambda v: theory.rexp3_period(9, 2, v), (0, -1.0, NAN, INF), FINITE, DOC),
    "rexp3 arms": (lambda v: theory.rexp3_period(9, v, 1.0), WHOLE, ONE, DOC),
    "discount gain": (lambda v: theory.discount(10, v), (0, -1.0, NAN, INF), FINITE, DOC),
    "window start": (lambda v: theory.next_window_start(v, 2.0, 0.25), WHOLE, ONE, "rounds"),
    "side queries": (lambda v: theory.side_queries(3, v), WHOLE, ONE, DOC),
    "constant": (lambda v: theory.side_queries(3, 1, constant=v), (0, NAN), FINITE, DOC),
    "necessary": (lambda v: theory.necessary_side_queries(10, v), (1.0, NAN), "(1, inf)", DOC),
    "gain": (lambda v: theory.greedy_information_gain(EYE, v, 3), (0.0, NAN), "positive"),
    "markov": (lambda v: theory.markov_information_gain(EYE, 0.1, v, 3), RATE, UNIT, DOC),
    "closed": (lambda v: theory.closed_form_information_gain(10, v, "se"), WHOLE, ONE, DOC),
}

DRAW, AT_LEAST_0 = GaussianDraw(KERNEL), (-0.1, NAN, INF, 1e101)
WORLD = MarkovWorld(LINE, kernel=KERNEL, epsilon=0.1, noise=0.1)
PANEL = partial(PanelWorld, np.random.default_rng(0).standard_normal((12, 4)))
markov = partial(replacing, partial(MarkovWorld, LINE, kernel=KERNEL), epsilon=0.1, noise=0.1)
sine = partial(replacing, partial(SineWorld, LINE, kernel=KERNEL), noise=0.1)
power = partial(
    replacing, partial(PowerLawWorld, LINE, kernel=KERNEL), alpha=1, horizon=3, noise=0.1
)
drift = partial(replacing, partial(DriftWorld, LINE), functions=DRAW, horizon=5, noise=0.1)
function = partial(replacing, partial(MarkovFunction, KERNEL), epsilon=0.1, dim=1, horizon=3)
study = partial(
    replacing,
    partial(run_study, WORLD, {"GP": gp_ucb(kernel=KERNEL, noise=0.1)}, progress=False),
    **dict.fromkeys(("trials", "horizon", "chunk", "workers"), 1),
)
WORLDS = {
    "MarkovWorld epsilon": (markov("epsilon"), RATE, UNIT, "static"),
    "MarkovWorld noise": (markov("noise"), AT_LEAST_0, UP_TO, "0 means no noise"),
    "Static": (lambda v: StaticWorld(LINE, functions=DRAW, noise=v), AT_LEAST_0, UP_TO, "0 means"),
    "Abrupt": (
        lambda v: AbruptWorld(LINE, functions=DRAW, changes=[v], noise=0.1),
        *((1, 2.5), AT_LEAST + "2", "first round"),
    ),
    "DriftWorld horizon": (drift("horizon"), WHOLE, ONE),
    "DriftWorld legs": (drift("legs"), WHOLE, ONE, "leg"),
    "PowerLaw alpha": (power("alpha"), (-0.1, 2.0, NAN), "[0, 2)", "Brownian"),
    "PowerLaw kappa": (power("kappa"), AT_LEAST_0, UP_TO, "1 is usual"),
    "PowerLaw horizon": (power("horizon"), WHOLE, ONE, "rounds"),
    "SineWorld scale": (sine("scale"), AT_LEAST_0, UP_TO, "the paper uses 5"),
    "SineWorld frequency": (sine("frequency"), (NAN, INF), "must be finite", "paper uses 0.3"),
    "RKHS terms": (lambda v: RKHSFunctions(KERNEL, terms=v), WHOLE, ONE, "the paper uses 20"),
    "SmoothedDraw": (lambda v: SmoothedDraw(KERNEL, v), (0.0, NAN), "positive", "GaussianDraw"),
    "look rounds": (WORLD.look, WHOLE, ONE, "number of rounds"),
    "look trials": (lambda v: WORLD.look(1, v), WHOLE, ONE, "number of trials"),
    "trials": (study("trials"), WHOLE, ONE, "number of worlds"),
    "horizon": (study("horizon"), WHOLE, ONE, "number of rounds"),
    "seed": (study("seed"), (-1, 0.5), AT_LEAST + "0", "0 or more"),
    "noise_share": (replacing(PANEL, "noise_share", train=8), (0.0, 1.1, NAN), "(0, 1]", "0.05"),
    "make_panel epsilon": (lambda v: make_panel(epsilon=v), RATE, UNIT, "static"),
    "make_panel gaps": (lambda v: make_panel(gaps=v), (-0.1, 1.0, NAN), "[0, 1)"),
    "MarkovFunction epsilon": (function("epsilon"), RATE, UNIT, "static"),
    "MarkovFunction horizon": (function("horizon"), WHOLE, ONE, "in rounds"),
    "features": (function("features"), WHOLE, ONE, "512"),
    "Ackley": (lambda v: DriftingAckley(horizon=v), (0, NAN, INF), FINITE, "1000 is usual"),
}
NONE_TOO = {  # None leaves the choice to the callee
    "raw_samples": (MultiStart, WHOLE, ONE, "512"),
    "evaluations": (lambda v: MultiStart(evaluations=v), WHOLE, ONE, "60"),
    "workers": (study("workers"), WHOLE, ONE, "number of blocks"),
    "chunk": (study("chunk"), WHOLE, ONE, "size of a block"),
}
CASES = [
    *numbers(PARTS | THEORY | WORLDS),
    *(case for case in numbers(NONE_TOO) if "None" not in case.id),
]


@pytest.mark.parametrize(("call", "words"), CASES)
def test_refused(call, words):
    refuses(call, *words)
