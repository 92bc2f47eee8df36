"""Rounds of many trials in machine code compiled by Numba; a trial's data stay in a core's cache.

Operations on all trials at once are limited by memory traffic, because no cache holds a number for
every trial and arm. Here a trial plays many rounds before the next trial starts, so its mean,
variance and inverse stay in the cache of a core.

The algorithm for the posterior is that of :class:`~botorch_tv.gp.arm_engine.PlayedArms`, written as
loops.

All compiled code is in this file, because Numba's cache on disk ignores changes in other files.
``COMPILED_IN`` is a digest of the two things that this code takes from other files: the constant
``REFRESH_ROUNDS``, and the fields of ``Rules``.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, cast

import numba
import numpy as np
import torch

from botorch_tv.gp.arms import REFRESH_ROUNDS
from botorch_tv.gp.basis import Basis, ProductBasis
from botorch_tv.simulation.rules import MOST_SLOTS, Compilable, Rules, TooManyArms, played
from botorch_tv.simulation.settings import Arrays, StudySettings
from botorch_tv.simulation.worlds.base import InFeatures, Objective, OnArms

COMPILED_IN = "60380928484d"
"""Digest of the fields of ``Rules`` and of the constant ``REFRESH_ROUNDS``. Update the digest
whenever a field or the constant changes; otherwise Numba would reuse outdated machine code."""
FIRST_SLOTS = 48
"""Initial number of slots for played arms, a multiple of three."""
AT_ONCE = 4
"""Number of rounds whose objectives are buffered, as values on all arms, until the trials play
them."""
UNINTERRUPTED = 2**24
"""How many numbers are processed between two checks for an interruption; the checks are some tenths
of a second apart."""
SLOTS, SINCE, ELAPSED = range(3)
"""Columns of ``Trials.counts``: slots used, rounds since the reset, and time since the origin."""
Buffers = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Five arrays that every round reuses. The first three hold the direction in which an observation
moves the posterior mean: in coordinates, expanded over one group of dimensions, and on the arms.
The fourth holds covariances with the played arms. The fifth holds the weights of these arms in the
direction."""
Loop = TypeVar("Loop", bound=Callable[..., object])
# The compiler may reorder sums, for example in matrix products, and may assume that no number is
# NaN.
_ARITHMETIC = {"contract", "reassoc", "nsz", "nnan"}


class Factors(NamedTuple):
    """The covariance K = K₁ ⊗ K₂ over the arms; each factor belongs to a group of dimensions.

    Φ₁ and Φ₂ are the kernel's features in the first and second group of dimensions. If the matrix C
    contains the coordinates of a function with respect to Φ₁ and Φ₂, the function has the values Φ₁
    C Φ₂ᵀ on the arms. The features are padded with columns of zeros: Φ₁ has a multiple of six
    columns, and Φ₂ a multiple of three. If the covariance has no product structure, K₁ is 1 and K₂
    is the whole covariance; a row of K₂ then has the covariances of an arm with all arms.
    """

    left: np.ndarray
    """Features Φ₁ of the first group, `n_1 x r_1`; n_1 is even unless ``mirrored``."""
    right: np.ndarray
    """Transposed features Φ₂ᵀ of the second group, `r_2 x n_2`."""
    mirrored: bool
    """Whether reversing the rows of Φ₁ preserves the first half of its columns and negates the
    second half. If so, half of the rows of Φ₁ suffice to compute a product with Φ₁."""
    rows: np.ndarray
    """The matrix whose rows, combined with those of Φ₁, give the rows of K: Φ₂ with product
    structure, K₂ without, `n_2 x r_2`."""
    first: np.ndarray
    """The factor K₁ of the covariance, for the first group of dimensions."""
    second: np.ndarray
    """The factor K₂ of the covariance, for the second group of dimensions."""
    product: bool
    places: np.ndarray
    """Position of each coordinate of the basis in the flattened matrix C, `r`."""


class Trials(NamedTuple):
    """The posterior and the recorded variables of each trial."""

    mean: np.ndarray
    """Posterior means of the arms, `trials x M`."""
    variance: np.ndarray
    """Posterior variances of the arms, `trials x M`."""
    places: np.ndarray
    """Indices of the played arms in both groups of dimensions, `trials x 2 x slots`."""
    inverse: np.ndarray
    """The matrix P over the played arms, `trials x slots x slots`; see ``_observe``."""
    counts: np.ndarray
    """Counters of each trial, `trials x 3`, with the columns SLOTS, SINCE and ELAPSED."""
    gain: np.ndarray
    """Information gain of the retained observations, `trials`."""
    arm: np.ndarray
    """Index of the arm played in each round, `trials x rounds`."""
    regret: np.ndarray
    """Regret of each round, `trials x rounds`."""
    resets: np.ndarray
    """Whether data were dropped in each round, `trials x rounds`."""
    y: np.ndarray
    """Observations, `trials x rounds`; `trials x 0` for a strategy without a window."""


def _compiled(loop: Loop) -> Loop:
    """Compile a function to machine code, which is cached on disk if a folder is writable."""
    settings = {"nogil": True, "error_model": "numpy", "fastmath": _ARITHMETIC}
    try:
        return cast(Loop, numba.njit(cache=True, **settings)(loop))
    except RuntimeError:  # no folder for the cache is writable
        return cast(Loop, numba.njit(**settings)(loop))


LANES = 128
"""Number of independent running maxima, which a core updates in parallel."""


@_compiled
def _product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """Compute a matrix product; the left factor has an even number of rows and 3 n columns.

    Two rows of the result and three rows of the right factor are processed at a time, in registers.
    """
    columns = right.shape[1]
    for i in range(0, len(left), 2):
        first, second = out[i], out[i + 1]
        for triple in range(left.shape[1] // 3):
            k = 3 * triple
            a, b, c = left[i, k], left[i, k + 1], left[i, k + 2]
            d, e, f = left[i + 1, k], left[i + 1, k + 1], left[i + 1, k + 2]
            x, y, z = right[k], right[k + 1], right[k + 2]
            if k == 0:
                for j in range(columns):
                    first[j] = a * x[j] + b * y[j] + c * z[j]
                    second[j] = d * x[j] + e * y[j] + f * z[j]
            else:
                for j in range(columns):
                    first[j] += a * x[j] + b * y[j] + c * z[j]
                    second[j] += d * x[j] + e * y[j] + f * z[j]


@_compiled
def _mirrored_product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """Compute a matrix product whose left factor has symmetric, then antisymmetric columns.

    If the order of the rows of the left factor is reversed, its symmetric columns, the first half,
    stay the same, and its antisymmetric columns, the second half, change sign. Row i of the result
    is the product with the symmetric columns plus the product with the antisymmetric columns. Row i
    from the end is the difference of these two products. A middle row is computed twice; the second
    copy is written to an extra last row.
    """
    rows, half, columns = len(left), left.shape[1] // 2, right.shape[1]
    for i in range((rows + 1) // 2):
        image = rows - 1 - i
        first, second = out[i], out[image if image > i else rows]
        for triple in range(half // 3):
            k = 3 * triple
            m = half + k
            a, b, c = left[i, k], left[i, k + 1], left[i, k + 2]
            d, e, f = left[i, m], left[i, m + 1], left[i, m + 2]
            x, y, z = right[k], right[k + 1], right[k + 2]
            u, v, w = right[m], right[m + 1], right[m + 2]
            if k == 0:
                for j in range(columns):
                    even, odd = a * x[j] + b * y[j] + c * z[j], d * u[j] + e * v[j] + f * w[j]
                    first[j] = even + odd
                    second[j] = even - odd
            else:
                for j in range(columns):
                    even, odd = a * x[j] + b * y[j] + c * z[j], d * u[j] + e * v[j] + f * w[j]
                    first[j] += even + odd
                    second[j] += even - odd


@_compiled
def _expand(factors: Factors, core: np.ndarray, half: np.ndarray, out: np.ndarray) -> None:
    """Compute the values on the arms, Φ₁ C Φ₂ᵀ, from coordinates C."""
    _product(core, factors.right, half)
    if factors.mirrored:
        _mirrored_product(factors.left, half, out)
    else:
        _product(factors.left, half, out)


@_compiled
def _largest(values: np.ndarray, sign: float) -> float:
    """The largest element of ``sign * values``.

    There are ``LANES`` running maxima, each over every ``LANES``-th value. The running maxima do
    not depend on each other, so a core updates them in parallel.
    """
    lanes, count = np.full(LANES, sign * values[0]), len(values) // LANES
    for block in range(count):
        some = values[block * LANES : (block + 1) * LANES]
        for lane in range(LANES):
            value = sign * some[lane]
            lanes[lane] = value if value > lanes[lane] else lanes[lane]
    largest: float = lanes.max()
    for m in range(count * LANES, len(values)):
        largest = max(largest, sign * values[m])
    return largest


@_compiled
def _forget(trials: Trials, i: int, rules: Rules) -> None:
    """Reset a trial to the prior."""
    trials.mean[i] = 0.0
    trials.variance[i] = rules.prior[0] * rules.variance
    trials.gain[i] = 0.0
    trials.counts[i, SLOTS] = 0
    trials.counts[i, SINCE] = 1
    trials.counts[i, ELAPSED] = 0


@_compiled
def _pass_time(trials: Trials, i: int, rules: Rules) -> float:
    """Advance a trial by a round; return the factor on (prior variance − posterior variance)."""
    if not rules.moves or trials.counts[i, SLOTS] == 0:
        return 1.0
    elapsed = trials.counts[i, ELAPSED]
    retained = rules.attenuation[elapsed]
    square: float = retained * retained
    grown = rules.prior[elapsed + 1] - square * rules.prior[elapsed]
    trials.counts[i, ELAPSED] = elapsed + 1
    mean, variance, prior = trials.mean[i], trials.variance[i], rules.variance
    for m in range(len(mean)):
        mean[m] *= retained
        variance[m] = square * variance[m] + grown * prior[m]
    return square


@_compiled
def _choose(trials: Trials, i: int, rules: Rules, t: int, score: np.ndarray) -> int:
    """Index of the first arm with the highest upper confidence bound."""
    mean, variance = trials.mean[i], trials.variance[i]
    sqrt_beta, sign = rules.sqrt_beta[t], rules.sign
    if len(rules.gain_slope) > 0:
        sqrt_beta += math.sqrt(rules.gain_root[t] + rules.gain_slope[t] * trials.gain[i])
    for m in range(len(mean)):
        score[m] = sign * mean[m] + sqrt_beta * math.sqrt(max(variance[m], 0.0))
    least = _largest(score, 1.0) - rules.tie
    for m in range(len(score)):
        if score[m] >= least:
            return m
    return 0


@_compiled
def _mix(
    factors: Factors,
    lefts: np.ndarray,
    rights: np.ndarray,
    weights: np.ndarray,
    used: int,
    core: np.ndarray,
) -> None:
    """Compute the weighted sum of rows of K, Σ_a w_a φ₁(a) φ₂(a)ᵀ, over the played arms a."""
    left = factors.left
    core[:] = 0.0
    for third in range((used + 2) // 3):
        a = 3 * third
        d, e, f = weights[a], weights[a + 1], weights[a + 2]
        p, q, r = left[lefts[a]], left[lefts[a + 1]], left[lefts[a + 2]]
        x, y, z = factors.rows[rights[a]], factors.rows[rights[a + 1]], factors.rows[rights[a + 2]]
        for k in range(len(core)):
            line, g, h, i = core[k], d * p[k], e * q[k], f * r[k]
            for b in range(len(line)):
                line[b] += g * x[b] + h * y[b] + i * z[b]


@_compiled
def _slot_of(left: int, right: int, lefts: np.ndarray, rights: np.ndarray, used: int) -> int:
    """The slot of an arm; ``used``, the first free slot, for an arm without a slot."""
    slot = used
    for a in range(used):
        if lefts[a] == left and rights[a] == right:
            slot = a
    return slot


@_compiled
def _vacate(
    slot: int, lefts: np.ndarray, rights: np.ndarray, inverse: np.ndarray, counts: np.ndarray
) -> None:
    """Free a slot; the arm in the last slot moves to it."""
    counts[SLOTS] = last = counts[SLOTS] - 1
    lefts[slot], rights[slot] = lefts[last], rights[last]
    inverse[slot, :last] = inverse[last, :last]
    inverse[:last, slot] = inverse[:last, last]
    inverse[slot, slot] = inverse[last, last]


@_compiled
def _observe(
    trials: Trials,
    i: int,
    rules: Rules,
    factors: Factors,
    arm: int,
    y: float,
    noise: float,
    square: float,
    removed: int,
    buffers: Buffers,
) -> None:
    """Add an observation ``y`` of an arm, of variance ``noise``; if ``removed`` > 0, remove it.

    To add an observation, ``removed`` is 0; otherwise it is the number of observations of the arm
    before the removal.

    The algorithm is that of ``PlayedArms``. The difference of prior and posterior variance is
    multiplied by ``square``, which accounts for the time since the last observation. For a static
    objective, P is the inverse of K + N over the played arms; the diagonal matrix N has, for every
    played arm, the noise variance of its mean observation. To avoid cancellation, a removal at arm
    j uses N_j P_j, which equals e_j - P k_j for the unit vector e_j and the column k_j of K. The
    removal also uses the posterior variance of the arm, N_j (1 - N_j P_jj).
    """
    inverse, counts = trials.inverse[i], trials.counts[i]
    lefts, rights = trials.places[i, 0], trials.places[i, 1]
    used, points = counts[SLOTS], factors.second.shape[0]
    left, right = arm // points, arm % points
    first, second = factors.first[left], factors.second[right]
    core, half, values, between, weights = buffers
    weights[:] = 0.0
    slot = _slot_of(left, right, lefts, rights, used)
    if removed > 0:
        sign, mean_noise = -1.0, noise / removed
        for a in range(used):
            weights[a] = mean_noise * inverse[slot, a]
        total = mean_noise * (removed - 1 + weights[slot])  # noise minus posterior variance
    else:
        for a in range(used):
            between[a] = first[lefts[a]] * second[rights[a]]
        for a in range(used):
            scaled, row = square * between[a], inverse[a]
            for b in range(used):
                weights[b] += scaled * row[b]
        sign, prior = 1.0, rules.prior[counts[ELAPSED]]
        total = prior * rules.variance[arm] + noise
        for a in range(used):
            total -= between[a] * weights[a]
            weights[a] = -weights[a]
        if slot == used:
            lefts[slot], rights[slot] = left, right
            used += 1
            counts[SLOTS] = used
            inverse[slot, :used] = 0.0
            inverse[:used, slot] = 0.0
        weights[slot] += prior
    trials.gain[i] += 0.5 * math.log(total / noise)
    root = 1.0 / math.sqrt(total)
    for a in range(used):
        weights[a] *= root
    _mix(factors, lefts, rights, weights, used, core)
    for a in range(used):
        share, row = sign * weights[a], inverse[a]
        for b in range(used):
            row[b] = square * row[b] + share * weights[b]
    step = core.ravel()
    if factors.product:
        _expand(factors, core, half, values)
        step = values.ravel()
    mean, variances = trials.mean[i], trials.variance[i]
    residual = sign * root * (y - rules.mean - mean[arm])
    for m in range(len(mean)):
        mean[m] += residual * step[m]
        variances[m] -= sign * step[m] * step[m]
    if removed == 1:
        _vacate(slot, lefts, rights, inverse, counts)


@_compiled
def _slide(
    trials: Trials, i: int, rules: Rules, factors: Factors, t: int, buffers: Buffers
) -> None:
    """Remove the observation that leaves the window after round ``t``."""
    arms, y, noise, oldest = trials.arm[i], trials.y[i], rules.noise, t - rules.window
    if oldest < 0:
        return
    if t % REFRESH_ROUNDS != 0:
        arm, times = arms[oldest], 0
        for retained in range(oldest, t + 1):
            times += arms[retained] == arm
        _observe(trials, i, rules, factors, arm, y[oldest], noise, 1.0, times, buffers)
        return
    _forget(trials, i, rules)
    for last in range(oldest + 1, t + 1):  # the mean of an arm stands for its observations
        arm, times, total = arms[last], 0, 0.0
        for retained in range(oldest + 1, t + 1):
            if arms[retained] == arm:
                times, total = (times + 1, total + y[retained]) if retained <= last else (0, 0.0)
        if times > 0:
            y_mean, noise_mean = total / times, noise / times
            _observe(trials, i, rules, factors, arm, y_mean, noise_mean, 1.0, 0, buffers)


@_compiled
def _play_round(
    t: int,
    i: int,
    values: np.ndarray,
    error: float,
    factors: Factors,
    rules: Rules,
    trials: Trials,
    buffers: Buffers,
    score: np.ndarray,
) -> None:
    """Play one round of one trial, given the objective's values and the noise."""
    reset = rules.period > 0 and t > 0 and t % rules.period == 0
    if reset:
        _forget(trials, i, rules)
    square = _pass_time(trials, i, rules)
    arm = _choose(trials, i, rules, t, score)
    y = values[arm] + error
    trials.arm[i, t] = arm
    trials.regret[i, t] = _largest(values, rules.sign) - rules.sign * values[arm]
    if len(rules.band_sd) > 0:
        since, sd = trials.counts[i, SINCE], math.sqrt(max(trials.variance[i, arm], 0.0))
        band = rules.band_sd[since] * sd + rules.band_noise[since]
        trials.counts[i, SINCE] += 1
        if abs(y - rules.mean - trials.mean[i, arm]) > band:
            _forget(trials, i, rules)
            square, reset = 1.0, True
    trials.resets[i, t] = reset
    if rules.window == 0 or t < rules.window or t % REFRESH_ROUNDS != 0:  # otherwise in _slide
        _observe(trials, i, rules, factors, arm, y, rules.noise, square, 0, buffers)
    if rules.window > 0:
        trials.y[i, t] = y
        _slide(trials, i, rules, factors, t, buffers)


@_compiled
def play(
    round_: int,
    begin: int,
    end: int,
    given: np.ndarray,
    noise: np.ndarray,
    features: Factors,
    factors: Factors,
    rules: Rules,
    trials: Trials,
) -> None:
    """Play some rounds of some trials, one trial after another.

    Args:
        round_: Number of the first round, counted from 0.
        begin: Index of the first trial.
        end: Index of the last trial, plus 1.
        given: The objectives: their values on the arms, `rounds x trials x M`, or their coordinates
            in ``features``, `rounds x trials x r`.
        noise: Observation noise, `rounds x trials`.
        features: Features of the objectives. If ``given`` contains values on the arms,
            ``features.places`` is empty.
        factors: The factors K₁ and K₂ of the covariance over the arms, for the strategy's kernel.
        rules: The strategy's settings in the form of numbers and arrays.
        trials: The posterior and the recorded variables of each trial, updated in place.
    """
    arms, slots = trials.mean.shape[1], trials.places.shape[2]
    core, half, out = _matrices(factors, factors.rows.shape[1])
    buffers, score = (core, half, out, np.empty(slots), np.empty(slots)), np.empty(arms)
    core, half, out = _matrices(features, len(features.right))
    coordinates = core.ravel()
    for i in range(begin, end):
        for step in range(len(noise)):
            values = given[step, i]
            if len(features.places) > 0:
                for k in range(len(features.places)):
                    coordinates[features.places[k]] = values[k]
                _expand(features, core, half, out)
                values = out.ravel()[:arms]
            _play_round(
                round_ + step, i, values, noise[step, i], factors, rules, trials, buffers, score
            )


@_compiled
def _matrices(factors: Factors, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Allocate memory for coordinates C, for the product C Φ₂ᵀ, and for values on the arms."""
    left, right = factors.left, factors.right
    return (
        np.zeros((left.shape[1], columns)),
        np.empty((left.shape[1], right.shape[1])),
        np.empty((len(left) + len(left) % 2, right.shape[1])),
    )


def factors(basis: Basis) -> Factors:
    """The covariance over the arms for a basis: a Kronecker product if possible, else a matrix."""
    if not isinstance(basis, ProductBasis):
        every = torch.arange(basis.arms, device="cpu")
        covariance = np.ascontiguousarray(basis.gram(every).numpy())
        return NOTHING._replace(left=np.ones((1, 1)), rows=covariance, second=covariance)
    *some, last = basis.factors
    left, right = functools.reduce(torch.kron, some).numpy(), last.numpy()
    points, rank = left.shape
    even, odd = (np.flatnonzero((left[::-1] == sign * left).all(0)) for sign in (1, -1))
    mirrored = len(even) + len(odd) == rank
    columns = np.arange(rank)
    width, height = rank + -rank % 6, points + points % 2
    if mirrored:
        half = max(len(even), len(odd))
        half += -half % 3
        columns[even], columns[odd] = np.arange(len(even)), half + np.arange(len(odd))
        width, height = 2 * half, points
    wide = np.zeros((height, width))
    wide[:points, columns] = left
    rows = np.pad(right, ((0, 0), (0, -right.shape[1] % 3)))
    first, second = np.divmod(basis.retained.numpy(), right.shape[1])
    return Factors(
        left=wide,
        right=np.ascontiguousarray(rows.T),
        mirrored=mirrored,
        rows=rows,
        first=left @ left.T,
        second=right @ right.T,
        product=True,
        places=columns[first] * rows.shape[1] + second,
    )


NOTHING = Factors(
    left=np.zeros((0, 0)),
    right=np.zeros((0, 0)),
    mirrored=False,
    rows=np.zeros((0, 0)),
    first=np.ones((1, 1)),
    second=np.zeros((0, 0)),
    product=False,
    places=np.zeros(0, dtype=np.int64),
)
"""Empty factors; they stand for the features of objectives that are given by their values."""


class CompiledTable:
    """Plays strategies in the trials of one block, in compiled rounds.

    The objectives of several rounds are buffered. A trial plays all buffered rounds before the next
    trial starts, so the data of a trial stay in a cache.

    Args:
        settings: The settings of the study.
        compilable: The strategies, converted to numbers and tables; each key is the label of a
            strategy.
        block: The trial numbers of the block, such as ``range(50, 100)``.
        stop: An event; if it is set, no more rounds are played.

    Attributes:
        trials: Posteriors and recorded variables of every strategy, by its label.
    """

    def __init__(
        self,
        settings: StudySettings,
        compilable: Mapping[str, Compilable],
        block: range,
        stop: threading.Event,
    ) -> None:
        self.settings, self.compilable, self.stop = settings, compilable, stop
        self._count = len(block)
        self._factors = {label: factors(basis) for label, (_, _, basis) in compilable.items()}
        self._disturb = settings.errors(block)
        self.trials = {
            label: _beginning(rules, slots, (len(block), settings.horizon))
            for label, (rules, slots, _) in compilable.items()
        }
        self._features: Factors | None = None

    def play_round(self, step: int, objective: Objective) -> None:
        """Play one round of every strategy, now or together with later rounds.

        Args:
            step: The round, counted from 0.
            objective: The objectives of all trials.

        Raises:
            TooManyArms: If a trial holds more than ``MOST_SLOTS`` arms.
        """
        assert isinstance(objective, OnArms)
        basis = objective.basis if isinstance(objective, InFeatures) else None
        given = objective.coordinates if isinstance(objective, InFeatures) else objective.values
        values = given.numpy()
        if self._features is None:
            self._features = NOTHING if basis is None else factors(basis)
            arms = next(iter(self.trials.values())).mean.shape[1]
            rounds = min(max(1, AT_ONCE * arms // values.shape[1]), self.settings.horizon)
            self._given = np.empty((rounds, *values.shape))
            self._noise = np.empty((rounds, self._count))
        place = step % len(self._given)
        self._given[place], self._noise[place] = values, self._disturb.normal().numpy()
        if place + 1 < len(self._given) and step + 1 < self.settings.horizon:
            return
        seen, noise = self._given[: place + 1], self._noise[: place + 1]
        for label, (rules, most, _) in self.compilable.items():
            trials = self.trials[label]
            used = int(trials.counts[:, SLOTS].max(initial=0))
            if used > MOST_SLOTS:
                raise TooManyArms(label)
            most += -most % 3
            needed, held = min(used + place + 1, most), trials.inverse.shape[-1]
            if needed > held:
                held = min(max(needed + -needed % 3, 2 * held), most)
                trials = self.trials[label] = _with_slots(trials, held)
            work = (place + 1) * (trials.mean.shape[1] + held**2)
            together = max(1, UNINTERRUPTED // work)
            for first in range(0, self._count, together):
                if self.stop.is_set():
                    return
                last, parts = min(first + together, self._count), self._factors[label]
                play(step - place, first, last, seen, noise, self._features, parts, rules, trials)

    def finished(self) -> dict[str, Arrays]:
        """The recorded variables of every strategy, by its label."""
        return {
            label: played(index=trials.arm, regret=trials.regret, resets=trials.resets)
            for label, trials in self.trials.items()
        }


def _beginning(rules: Rules, most: int, shape: tuple[int, int]) -> Trials:
    """All trials before the first round: the prior, and empty recorded variables."""
    (trials, horizon), slots = shape, min(FIRST_SLOTS, most + -most % 3)
    counts = np.zeros((trials, 3), dtype=np.int64)
    counts[:, SINCE] = 1
    return Trials(
        mean=np.zeros((trials, len(rules.variance))),
        variance=np.tile(rules.prior[0] * rules.variance, (trials, 1)),
        places=np.zeros((trials, 2, slots), dtype=np.int64),
        inverse=np.zeros((trials, slots, slots)),
        counts=counts,
        gain=np.zeros(trials),
        arm=np.zeros(shape, dtype=np.int32),
        regret=np.zeros(shape),
        resets=np.zeros(shape, dtype=np.bool_),
        y=np.zeros((trials, horizon if rules.window else 0)),
    )


def _with_slots(trials: Trials, slots: int) -> Trials:
    """The same trials with more slots; unused slots are never written, so they take no memory."""
    count = len(trials.counts)
    places = np.zeros((count, 2, slots), dtype=np.int64)
    inverse = np.zeros((count, slots, slots))
    for i, used in enumerate(trials.counts[:, SLOTS]):
        places[i, :, :used] = trials.places[i, :, :used]
        inverse[i, :used, :used] = trials.inverse[i, :used, :used]
    return trials._replace(places=places, inverse=inverse)
