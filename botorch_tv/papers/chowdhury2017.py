"""Experiments of [C17] on static objectives: draws, standard test functions and recorded data.

The synthetic functions are defined on 100 random arms in [0, 1]. Each synthetic function is either
a draw from the Gaussian process or a smoothed draw. A smoothed draw is the posterior mean fitted to
a draw, and lies in the kernel's function space. Some settings of the paper depend on the objective
function. Here each setting has one value for a whole study: R² is 1 % of the mean range of the
study's functions f, and B is the largest √(fᵀKf), because §6 of [C17] prints B² = fᵀKf. (The
squared norm of a smoothed draw f = Ka is aᵀKa, which §6 does not use.) All trials have the same
arms. The paper does not state the noise assumed in the fit; here it is 1 % of the mean range of the
draws. The paper does not define the incumbent of GP-EI and GP-PI; here it is the best value
observed. The first arm is random, and ties are broken at random. On the standard functions,
variants of GP-EI and GP-PI are played too: their incumbent is the best posterior mean, and their
labels have a suffix.

The paper gives neither the unit nor the horizon of the standard functions in Figure 3. Here the
standard functions are standardised over the arms, because the kernel has variance 1; R² = λ is 1 %
of the function's range. For the sensors of Figure 4, γ_t = 1 as in the paper, B is the largest
√(fᵀKf), and all rounds of a trial have the readings of the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import numpy as np
import torch
from botorch.test_functions import Hartmann, Rosenbrock
from botorch.test_functions.base import BaseTestProblem
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import IGPUCB, AgnosticGPUCB
from botorch_tv.acquisition.widths import ClosedForm, Fixed, InformationGain
from botorch_tv.papers.claims import Claim, beats, below, judge, judge_readings, similar
from botorch_tv.papers.experiment import (
    Drawn,
    Experiment,
    Outcome,
    Recorded,
    Results,
    draw_panels,
)
from botorch_tv.papers.recordings import LIGHT, Recordings
from botorch_tv.papers.sensors import STEPS_PER_DAY, cells
from botorch_tv.papers.worlds import drawn_values, mean_range
from botorch_tv.simulation import (
    FixedFunctions,
    GaussianDraw,
    PanelWorld,
    SmoothedDraw,
    StaticWorld,
)
from botorch_tv.simulation.panels import Panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, Strategy, gp_ei, gp_pi, gp_ts, gp_ucb, igp_ucb

POINTS = 100
HORIZON = 30_000
TRIALS = 25
DELTA = 0.1
NOISE_SHARE = 0.01
"""The noise variance R² as a share of the range of the functions."""
ON_MEAN = ", incumbent a mean"
"""Label suffix of strategies that use the best posterior mean as the incumbent."""


def random_arms() -> Grid:
    """100 points drawn uniformly from [0, 1], the same in every call."""
    return Grid(torch.from_numpy(np.random.default_rng(2017).random((POINTS, 1))))


def line_up(
    kernel: Kernel | Tensor, noise: float, B: float, gain: InformationGain
) -> dict[str, Strategy]:
    """The strategies of the paper.

    Args:
        kernel: Covariance of the arms.
        noise: Variance λ = R² of the noise.
        B: Bound on the norm of the functions.
        gain: How the information gain is computed; the confidence widths depend on the information
            gain.
    """
    R = noise**0.5
    agnostic = AgnosticGPUCB(B=B, delta=DELTA, gain=gain)
    improved = IGPUCB(B=B, R=R, delta=DELTA, gain=gain)
    thompson = IGPUCB(B=B, R=R, delta=DELTA / 2, gain=gain)
    return {
        "GP-UCB": gp_ucb(kernel=kernel, noise=noise, width=agnostic),
        "IGP-UCB": igp_ucb(kernel=kernel, noise=noise, width=improved),
        "GP-TS": gp_ts(kernel=kernel, noise=noise, width=thompson),
        "GP-EI": gp_ei(kernel=kernel, noise=noise, incumbent="observed", ties="random"),
        "GP-PI": gp_pi(kernel=kernel, noise=noise, incumbent="observed", ties="random"),
    }


def function_world(kernel_name: str, smooth: bool, noise: float) -> StaticWorld:
    """Static objectives drawn for a kernel with lengthscale 0.2 and variance 1.

    Args:
        kernel_name: "se" or "matern52".
        smooth: Whether to use smoothed draws, which lie in the kernel's space.
        noise: Variance of the noise.
    """
    kernel = unit_kernel(kernel_name, 0.2)
    draws = StaticWorld(random_arms(), functions=GaussianDraw(kernel), noise=noise)
    if not smooth:
        return draws
    functions = SmoothedDraw(kernel, noise=NOISE_SHARE * mean_range(draws, TRIALS))
    return StaticWorld(draws.domain, functions=functions, noise=noise)


def printed_bound(covariance: Tensor, functions: Tensor) -> float:
    """The bound B of [C17] §6: the largest √(fᵀKf) of the given functions f.

    Args:
        covariance: Covariance K of the arms, `M x M`.
        functions: Values of the functions on the arms, `... x M`.
    """
    return float((functions @ covariance * functions).sum(-1).max().sqrt())


def function_strategies(kernel_name: str, smooth: bool, noise: float) -> dict[str, Strategy]:
    """The strategies, with the information gain in closed form, as in the paper.

    The bound B holds for all functions of the study.

    Args:
        kernel_name: "se" or "matern52".
        smooth: Whether the functions are smoothed draws.
        noise: Variance of the noise.
    """
    kernel, world = unit_kernel(kernel_name, 0.2), function_world(kernel_name, smooth, 1.0)
    K = kernel(world.domain.X).to_dense().detach()
    B = printed_bound(K, drawn_values(world, TRIALS))
    gain = ClosedForm("se") if kernel_name == "se" else ClosedForm("matern", nu=2.5)
    return line_up(kernel, noise, B, gain)


def _drawn(title: str, kernel_name: str, smooth: bool) -> Drawn:
    world = partial(function_world, kernel_name, smooth)
    return Drawn(
        title,
        lambda: NOISE_SHARE * mean_range(world(1.0), TRIALS),
        world,
        partial(function_strategies, kernel_name, smooth),
    )


_CASES = {
    "se-rkhs": _drawn("SE, f in the kernel's space", "se", True),
    "se-gp": _drawn("SE, f drawn from the process", "se", False),
    "matern52-rkhs": _drawn("Matérn-5/2, f in the kernel's space", "matern52", True),
    "matern52-gp": _drawn("Matérn-5/2, f drawn from the process", "matern52", False),
}
_ORDER = (
    *(("IGP-UCB", other) for other in ("GP-UCB", "GP-TS", "GP-EI", "GP-PI")),
    ("GP-TS", "GP-UCB"),
)
_IMPROVING = ("GP-EI", "GP-PI")
_CLAIMS = [
    *(below(name, *pair) for name in _CASES for pair in _ORDER),
    *(similar(name, "GP-PI", "GP-EI") for name in _CASES),
    *(below(name, "GP-TS", other) for name in _CASES for other in _IMPROVING),
]

SYNTHETIC = Experiment(
    id="c17",
    title="Five strategies on static functions",
    paper='"IGP-UCB performs the best in the pool of competitors, while GP-TS also fares '
    'reasonably well compared to GP-UCB and GP-EI/GP-PI"; the last two "perform similarly and thus '
    'are not separately distinguishable in the plots". Both kernels and both kinds of functions.',
    remark="R² and B, the largest √(fᵀKf), hold for the whole study, and trials share the arms. "
    "The paper does not give the incumbent of GP-EI and GP-PI; here it is the best observation.",
    horizon=HORIZON,
    trials=TRIALS,
    cases=_CASES,
    score=partial(judge, _CLAIMS),
    picture=partial(draw_panels, _CASES, logarithmic=True),
)


# Figures 3 and 4: standard test functions, and sensors with static readings.

FUNCTION_HORIZON = 2_000
POINTS_PER_DIMENSION = 100
TRAINING_DAYS = 18
TEST_ROWS = 192
"""Number of test rows of the light sensors."""


@cache
def standardised(problem: BaseTestProblem) -> tuple[Grid, Tensor]:
    """Two values: 100 random points per dimension, and the standardised function values at them."""
    shape = (POINTS_PER_DIMENSION * problem.dim, problem.dim)
    grid = Grid(torch.from_numpy(np.random.default_rng(2017).random(shape)))
    found: Tensor = problem(grid.X, noise=False)
    return grid, (found - found.mean()) / found.std()


def _standard(title: str, problem: BaseTestProblem) -> Drawn:
    """A test function, to be maximised, with a squared exponential kernel of lengthscale 0.2."""

    def variance() -> float:
        _, values = standardised(problem)
        return NOISE_SHARE * float(values.max() - values.min())

    def world(noise: float) -> StaticWorld:
        grid, values = standardised(problem)
        return StaticWorld(grid, functions=FixedFunctions(values), noise=noise)

    def strategies(noise: float) -> dict[str, Strategy]:
        (grid, values), kernel = standardised(problem), unit_kernel("se", 0.2)
        K = kernel(grid.X).to_dense().detach()
        B = printed_bound(K, values)
        return {
            **line_up(kernel, noise, B, ClosedForm("se")),
            f"GP-EI{ON_MEAN}": gp_ei(kernel=kernel, noise=noise, ties="random"),
            f"GP-PI{ON_MEAN}": gp_pi(kernel=kernel, noise=noise, ties="random"),
        }

    return Drawn(title, variance, world, strategies)


# The functions are defined on the unit square, as in Azimi et al. (2012), whom the paper follows.
_FUNCTION_CASES = {
    "rosenbrock": _standard("Rosenbrock", Rosenbrock(dim=2, negate=True).double()),
    "hartmann3": _standard("Hartmann-3", Hartmann(dim=3, negate=True).double()),
}


_COMPETITIVE = (("IGP-UCB", "GP-UCB"), ("GP-TS", "GP-UCB"))


def _function_claims(end: str) -> list[Claim]:
    """The paper's claims, for the strategies whose labels have a given suffix."""
    claims: list[Claim] = []
    for name in _FUNCTION_CASES:
        for better in _IMPROVING:
            claims += beats(name, better + end, ("IGP-UCB", "GP-TS"))
    claims += [below(name, *pair) for name in _FUNCTION_CASES for pair in _COMPETITIVE]
    return claims


FUNCTIONS = Experiment(
    id="c17-functions",
    title="Standard test functions, which do not come from the kernel",
    paper='On Rosenbrock and Hartmann-3, "GP-EI/PI perform better than the rest, while IGP-UCB and '
    'GP-TS show competitive performance".',
    horizon=FUNCTION_HORIZON,
    trials=TRIALS,
    cases=_FUNCTION_CASES,
    score=partial(
        judge_readings,
        {
            "the best value observed as incumbent": _function_claims(""),
            "the best posterior mean as incumbent": _function_claims(ON_MEAN),
        },
    ),
    remark="B² = fᵀKf, as the paper prints it. It gives neither horizon nor unit of the functions, "
    "nor the incumbent of GP-EI and GP-PI; here 2,000 rounds of standardised functions.",
)


class SensorWorld(StaticWorld):
    """The objective of each trial is a row of a record, and does not change during the trial.

    As in [C17] §6, the kernel is the empirical covariance of the sensors (each sensor's mean is
    subtracted), and the noise variance is 5 % of the mean variance of the sensors. Readings are
    standardised by the mean and the standard deviation of all training readings.

    Args:
        panel: The record.
        sensors: Number of arms to draw at random from the record.
        training: Indices of the training rows.
        played: Indices of the rows that trials play.

    Attributes:
        kernel: Covariance of the training rows, `M x M`.
        readings: Standardised readings in the rows that trials play, `trials x M`.
    """

    def __init__(
        self, panel: Panel, sensors: int, training: np.ndarray, played: np.ndarray
    ) -> None:
        chosen = cells(panel.values.shape[1], sensors)
        train, test = (panel.values[rows][:, chosen] for rows in (training, played))
        values = (np.concatenate([train, test]) - train.mean()) / train.std()
        model = PanelWorld(values, train=len(train), center="arm", standardize=False)
        self.kernel, self.readings = model.kernel, torch.from_numpy(values[len(train) :])
        functions = FixedFunctions(self.readings)
        super().__init__(model.domain, functions=functions, noise=model.model_noise)


def temperature(records: Recordings) -> SensorWorld:
    """54 cells of the grid; trials play the readings at 8 and 9 o'clock, after the first 18 days.

    All hours of the first 18 days are for training, because two hours a day do not determine a
    covariance of 54 arms.
    """
    panel = records.temperature()
    hours = np.arange(len(panel.values)).reshape(-1, 24)
    played = hours[TRAINING_DAYS:, 8:10].ravel()[:TRIALS]
    return SensorWorld(panel, 54, hours[:TRAINING_DAYS].ravel(), played)


def light(records: Recordings) -> SensorWorld:
    """41 light sensors of the paper's record; every test row is played, as in the paper.

    If the paper's record is missing, speeds on 41 roads are played instead. A row every 15 minutes
    of the first five days is for training, and trials play rows of the next two days.
    """
    found = records.light()
    if found is None:
        panel, start, step = records.traffic(), 5 * STEPS_PER_DAY, 3
    else:
        (panel, start), step = found, 1
    rows = np.arange(len(panel.values))
    played = np.unique(np.linspace(start, len(rows) - 1, TEST_ROWS).astype(int))
    return SensorWorld(panel, 41, rows[:start:step], played)


def sensor_strategies(world: SensorWorld, B: float | None = None) -> dict[str, Strategy]:
    """The strategies for the sensors; without ``B`` the bound is the largest √(fᵀKf)."""
    bound = printed_bound(world.kernel, world.readings) if B is None else B
    return line_up(world.kernel, world.noise, bound, Fixed(1.0))


SMALL = 0.5
"""A value of B far below √(fᵀKf); GP-TS and IGP-UCB hardly explore with it."""


def _sensors(
    id: str,
    title: str,
    paper: str,
    remark: str,
    world: Callable[[Recordings], SensorWorld],
    claims: Callable[[str], list[Claim]],
    instead: str,
    record: str | None = None,
    trials: int = TRIALS,
) -> Experiment:
    """Half of Figure 4, with the printed bound B and with a small B.

    Args:
        id: Name on the command line.
        title: One line about the experiment.
        paper: What the paper reports.
        remark: A remark about the record.
        world: Makes the world from the records.
        claims: Function from the name of a case to the paper's claims about the case.
        instead: As for :class:`Recorded`.
        record: As for :class:`Recorded`.
        trials: Number of rows played.
    """
    bounds = {"printed": (None, "B² = fᵀKf"), f"B-{SMALL}": (SMALL, f"B = {SMALL}")}
    return Experiment(
        id=id,
        title=title,
        paper=paper,
        horizon=1_000,
        trials=trials,
        cases={
            name: Recorded(caption, world, partial(sensor_strategies, B=B), instead, record, trials)
            for name, (B, caption) in bounds.items()
        },
        score=partial(
            _as_printed, {caption: claims(name) for name, (_, caption) in bounds.items()}
        ),
        remark=f"{remark} The paper gives no horizon. It prints B² = fᵀKf (§6), which decides; "
        "results with a small B are beside it.",
    )


def _as_printed(readings: Mapping[str, Sequence[Claim]], results: Results) -> Outcome:
    """Test the claims of all interpretations; the first, which the paper prints, decides."""
    printed = judge(next(iter(readings.values())), results)
    return judge_readings(readings, results)._replace(holds=printed.holds)


TEMPERATURE = _sensors(
    "c17-temperature",
    "The warmest of static sensors",
    '"IGP-UCB and GP-UCB performs the same, while GP-TS outperforms all its competitors".',
    "Cells of a reanalysis replace 54 temperature sensors.",
    temperature,
    lambda name: [
        *beats(name, "GP-TS", ("GP-UCB", "IGP-UCB", *_IMPROVING)),
        similar(name, "IGP-UCB", "GP-UCB"),
    ],
    "54 cells of a reanalysis",
)
LIGHT_SENSORS = _sensors(
    "c17-light",
    "The brightest of static sensors",
    '"GP-TS is found to perform better than the others, with IGP-UCB performing better than '
    'GP-EI/PI".',
    "41 light sensors, the paper's record, where the folder has it, else speeds on 41 roads.",
    light,
    lambda name: [
        *beats(name, "GP-TS", ("GP-UCB", "IGP-UCB", *_IMPROVING)),
        *beats(name, "IGP-UCB", _IMPROVING),
    ],
    "speeds on 41 roads",
    LIGHT,
    TEST_ROWS,
)
