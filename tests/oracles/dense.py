"""The textbook: one trial, float64, numpy, every formula written out densely.

Nothing here is clever or fast. Each round builds the full covariance of the retained observations
and solves with it. The library is tested against this module, so it shares no code with it.

A model is given by plain tuples:

* decay: ``("static",)``, ``("markov", epsilon)``, ``("wiener", sigma_w2)``,
  ``("quasi-periodic", rate, omega)``, ``("damped", rate, start)``,
  ``("periodic", epsilon, cycle, lengthscale)``;
* inflation: ``("constant",)``, ``("exponential", gamma)``, ``("injection", alpha, kappa)``;
* retention: a rule of :mod:`oracles.rules`, or a tuple of several;
* exploration: ``"ucb"``, ``"ei"``, ``"pi"``, ``"directed"``, or any other for a rule that draws;
  ``"forced"`` is ``"ucb"`` in the rounds that do not;
* mean: a number, or ``"estimated"``.

A failed observation is a row with infinite noise: it counts as a round without information.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from oracles.rules import Row, Rules, Seen
from scipy.special import erfcx, gamma, kv

if TYPE_CHECKING:
    from oracles.expert import Consultant

Array = NDArray[np.float64]
Part = tuple[str] | tuple[str, float] | tuple[str, float, str] | tuple[str, float, float]
RootBeta = Callable[[int, float, float], float]
Mean = float | str


def squared_exponential(X: ArrayLike, lengthscale: float) -> Array:
    """Kernel matrix of exp(-r^2 / (2 l^2)) over the rows of ``X``: `M x M`."""
    return np.exp(-0.5 * (_distances(X) / lengthscale) ** 2)


def matern_five_halves(X: ArrayLike, lengthscale: float) -> Array:
    """Kernel matrix of the Matérn kernel with nu = 5/2 over the rows of ``X``: `M x M`."""
    s = math.sqrt(5.0) * _distances(X) / lengthscale
    return (1.0 + s + s**2 / 3.0) * np.exp(-s)


def _distances(X: ArrayLike) -> Array:
    points = np.asarray(X, dtype=np.float64)
    return np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(-1))


def decay_between(decay: Part, first: Array, second: Array, origin: float) -> Array:
    """Factor of the covariance between observations at two lists of times: `n x m`.

    Markov: (1-eps)^(|t_i - t_j| / 2) ([B16] (7)-(8)). Wiener: 1 + s (min(t_i, t_j) - origin).
    Quasi-periodic: exp(-a |t_i - t_j|) cos(w (t_i - t_j)). Damped: dz = -a z dt + sqrt(2a) dW from
    a variance v0 at the origin, exp(-a |t_i - t_j|) + (v0 - 1) exp(-a (t_i + t_j - 2 origin)).
    Periodic: that of Markov times exp(-2 sin²(π |t_i - t_j| / cycle) / lengthscale²).
    Smooth: Matérn by Bessel's function, Rasmussen and Williams (4.14), or exp(-|t_i - t_j|² / 2l²).
    """
    if decay[0] == "static":
        return np.ones((len(first), len(second)))
    if decay[0] == "markov":
        return (1.0 - decay[1]) ** (np.abs(np.subtract.outer(first, second)) / 2.0)
    if decay[0] == "wiener":
        return 1.0 + decay[1] * (np.minimum.outer(first, second) - origin)
    if decay[0] == "quasi-periodic":
        apart = np.subtract.outer(first, second)
        return np.exp(-decay[1] * np.abs(apart)) * np.cos(decay[2] * apart)
    if decay[0] == "periodic":
        apart = np.abs(np.subtract.outer(first, second))
        phase = np.sin(np.pi * apart / decay[2]) / decay[3]
        return (1.0 - decay[1]) ** (apart / 2.0) * np.exp(-2.0 * phase**2)
    if decay[0] == "smooth":
        lengthscale, nu = decay[1], decay[2]
        apart = np.abs(np.subtract.outer(first, second)) / lengthscale
        if np.isinf(nu):
            return np.exp(-0.5 * apart**2)
        root = np.sqrt(2.0 * nu) * np.where(apart > 0, apart, 1.0)
        matern = 2.0 ** (1.0 - nu) / gamma(nu) * root**nu * kv(nu, root)
        return np.where(apart > 0, matern, 1.0)
    if decay[0] == "damped":
        apart = np.abs(np.subtract.outer(first, second))
        since = np.add.outer(first - origin, second - origin)
        return np.exp(-decay[1] * apart) + (decay[2] - 1.0) * np.exp(-decay[1] * since)
    raise ValueError(decay)


def noise_factor(inflation: Part, lag: Array) -> Array:
    """Growth of an observation's noise with its lag, 1 at lag 0: `n`.

    Exponential weights: gamma^(-lag) ([W22] (2)-(3)). Injection: 1 + kappa lag^alpha with
    0^0 := 0 ([M] (8)-(10)).
    """
    lag = np.asarray(lag)
    if inflation[0] == "constant":
        return np.ones_like(lag)
    if inflation[0] == "exponential":
        with np.errstate(over="ignore"):
            return inflation[1] ** (-lag)
    if inflation[0] == "injection":
        alpha, kappa = inflation[1], inflation[2]
        return np.array([1.0 + kappa * (s**alpha if s > 0 else 0.0) for s in lag])
    raise ValueError(inflation)


def regression(*data: Any, **options: Any) -> tuple[Array, Array]:
    """As :func:`joint_regression`, with the variance of every arm, `M`."""
    mean, covariance = joint_regression(*data, **options)
    return mean, covariance.diagonal().copy()


def joint_regression(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    y: Sequence[float],
    now: float,
    *,
    noise: ArrayLike,
    decay: Part = ("static",),
    inflation: Part = ("constant",),
    reference: float | None = None,
    origin: float | None = None,
    mean: Mean = 0.0,
) -> tuple[Array, Array]:
    """Posterior mean and covariance of f_now at all arms from the given observations alone.

        mean = m + k~' (K~ + N)^-1 (y - m),    cov = k(x, x') D(now, now) - k~' (K~ + N)^-1 k~

    Args:
        K: kernel matrix of the arms, `M x M`.
        index: arms observed, `n`.
        times: times of the observations, `n`.
        y: observations, `n`.
        now: time of the prediction.
        noise: observation noise variance at lag 0, a number or `n`; inf for a failed observation.
        decay: how covariance decays with time.
        inflation: how noise grows with lag.
        reference: lags count back from here; the newest of ``times`` where None.
        origin: zero of the Wiener model's time; the oldest of ``times`` (``now`` without data)
            where None.
        mean: prior mean m, or ``"estimated"`` by generalised least squares.

    Returns:
        Mean, `M`, and covariance, `M x M`.
    """
    t = np.asarray(times, dtype=np.float64)
    at = np.asarray([now], dtype=np.float64)
    if origin is None:
        origin = float(t.min()) if len(t) else now
    prior = K * decay_between(decay, at, at, origin)[0, 0]
    if reference is None:
        reference = float(t.max()) if len(t) else now
    variance = np.broadcast_to(noise, t.shape) * noise_factor(inflation, reference - t)
    usable = np.isfinite(variance)  # infinite noise means no information
    if not usable.any():
        return np.full(len(K), 0.0 if mean == "estimated" else mean), prior
    arms, t, values = np.asarray(index)[usable], t[usable], np.asarray(y, dtype=np.float64)[usable]
    among = K[np.ix_(arms, arms)] * decay_between(decay, t, t, origin)
    among = among + np.diag(variance[usable])
    across = K[arms, :] * decay_between(decay, t, at, origin)
    level = generalised_least_squares(among, values) if mean == "estimated" else float(mean)
    solution = np.linalg.solve(among, np.column_stack([values - level, across]))
    return level + across.T @ solution[:, 0], prior - across.T @ solution[:, 1:]


def generalised_least_squares(A: Array, y: Array) -> float:
    """The constant m that minimises (y - m 1)' A^-1 (y - m 1): 1'A^-1 y / 1'A^-1 1."""
    weights = np.linalg.solve(A, np.ones(len(A)))
    return float(weights @ y / weights.sum())


def information_gain(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    *,
    noise: ArrayLike,
    decay: Part = ("static",),
    inflation: Part = ("constant",),
    reference: float | None = None,
    origin: float | None = None,
    power: int = 1,
) -> float:
    """1/2 ln det(I + N^-1/2 K~ N^-1/2) of the given observations.

    ``power=2`` squares the growth of the noise: the double-weighted gain of [W22].
    """
    t = np.asarray(times, dtype=np.float64)
    if len(t) == 0:
        return 0.0
    reference = float(t.max()) if reference is None else reference
    origin = float(t.min()) if origin is None else origin
    arms = np.asarray(index)
    among = K[np.ix_(arms, arms)] * decay_between(decay, t, t, origin)
    with np.errstate(over="ignore"):
        variance = np.asarray(noise) * noise_factor(inflation, reference - t) ** power
    scale = 1.0 / np.sqrt(np.broadcast_to(variance, t.shape))
    return 0.5 * float(np.linalg.slogdet(np.eye(len(t)) + scale[:, None] * among * scale)[1])


def log_improvement(u: Array) -> Array:
    """ln h(u) with h(u) = phi(u) + u Phi(u): expected improvement is sd h((mean - best) / sd).

    phi is the standard normal density and Phi its distribution function. Written as
    ln phi(u) + ln(1 + u Phi(u) / phi(u)), which neither underflows nor cancels for u > -1000, and
    for u > 0 as ln(u + h(-u)), which does not overflow.
    """
    u = np.asarray(u, dtype=np.float64)
    below = -np.abs(u)
    ratio = math.sqrt(math.pi / 2.0) * erfcx(-below / math.sqrt(2.0))  # Phi / phi
    tail = -0.5 * u**2 - 0.5 * math.log(2.0 * math.pi) + np.log1p(below * ratio)
    with np.errstate(divide="ignore"):  # ln h is finite where h underflows
        return np.where(u > 0.0, np.log(np.maximum(u, 0.0) + np.exp(tail)), tail)


def winner(score: Array, largest_prior_variance: float) -> int:
    """The lowest index whose score is within 1e-7 sqrt(max k(x, x)) of the maximum."""
    tolerance = 1e-7 * math.sqrt(largest_prior_variance)
    for index, value in enumerate(score):
        if value >= score.max() - tolerance:
            return index
    raise ValueError("no score is a number")


def probability_best(mean: Array, covariance: Array, draws: int, seed: int) -> Array:
    """How often each arm is the largest of a Gaussian draw, by plain sampling: `M`."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    sample = np.random.default_rng(seed).standard_normal((draws, len(mean))) @ root.T + mean
    return np.bincount(sample.argmax(1), minlength=len(mean)) / draws


@dataclass(frozen=True)
class Prediction:
    """The posterior of f_now, `M` and `M x M`, and the rows behind it."""

    mean: Array
    covariance: Array
    rows: list[Row]

    @property
    def variance(self) -> Array:
        return self.covariance.diagonal()

    @property
    def sd(self) -> Array:
        """Variances that rounding made negative count as zero."""
        return np.sqrt(np.clip(self.variance, 0.0, None))

    @property
    def usable(self) -> list[Row]:
        """The rows with finite noise."""
        return [row for row in self.rows if math.isfinite(row.noise)]


@dataclass(frozen=True)
class Choice:
    """An arm, the prediction there before it is observed, and √beta of the round."""

    index: int
    mean: float
    sd: float
    sqrt_beta: float
    time: float
    prediction: Prediction


@dataclass
class DenseBandit:
    """Plays rounds by the book.

    Args:
        K: kernel matrix of the arms, `M x M`.
        noise: default observation noise variance.
        decay: see the module.
        inflation: see the module.
        retention: see the module.
        sqrt_beta: √beta of (round counted from 1 over all rounds, g, double-weighted g).
        exploration: see the module.
        maximize: whether the largest value is wanted; the smallest else.
        mean: prior mean of f; see the module.
        consultant: an expert, queried after each observation. Its answers replace the earlier
            answers and all rows so far; without answers nothing is replaced.
    """

    K: Array
    noise: float
    decay: Part = ("static",)
    inflation: Part = ("constant",)
    retention: Part | tuple[Part, ...] = ("all",)
    sqrt_beta: RootBeta = lambda t, g, gbar: 0.0
    gains: bool = True  # whether √beta looks at them; they cost two determinants a round
    exploration: str = "ucb"
    maximize: bool = True
    mean: Mean = 0.0
    consultant: Consultant | None = None
    answers: list[Row] = field(default_factory=list)
    answered: int = 0  # the round of the newest answers, 0 before any

    def __post_init__(self) -> None:
        several = isinstance(self.retention[0], tuple)
        self.rules = Rules(self.retention if several else (self.retention,))

    @property
    def rows(self) -> list[Row]:
        """All rounds so far."""
        return self.rules.rows

    def default_now(self) -> float:
        """1 in the first round, else the newest time plus 1."""
        return self.rows[-1].time + 1.0 if self.rows else 1.0

    def live(self, now: float) -> list[Row]:
        """The rows that count when the next round is decided at ``now``."""
        numbers = self.rules.before_choice(now)[0].live
        return [*self.answers, *(self.rows[item] for item in numbers if item >= self.answered)]

    def origin(self, now: float) -> float:
        """Time of the first observation since the last reset; ``now`` where there is none.

        A window slides without resetting: its time counts from the first observation of all.
        """
        if self.answers:
            return self.answers[0].time
        origin = self.rules.before_choice(now)[0].origin
        return now if origin is None else origin

    def observations(self, now: float | None) -> tuple[float, list[Row], dict[str, Any]]:
        """The time, the rows that count, and their arguments for regression and gain."""
        at = self.default_now() if now is None else now
        rows = self.live(at)
        newest = self.rows[-1].time if self.rows else at
        data = {
            "index": [row.index for row in rows],
            "times": [row.time for row in rows],
            "noise": [row.noise for row in rows],
            "decay": self.decay,
            "inflation": self.inflation,
            "reference": newest if now is None else now,
            "origin": self.origin(at),
        }
        return at, rows, data

    def predict(self, now: float | None = None) -> Prediction:
        """Posterior of f_now at every arm, deciding the next round at ``now``."""
        at, rows, data = self.observations(now)
        y = [row.y for row in rows]
        mean, covariance = joint_regression(self.K, y=y, now=at, mean=self.mean, **data)
        return Prediction(mean, covariance, rows)

    def gain(self, now: float | None = None, power: int = 1) -> float:
        """Information gain of the rows that count at ``now``."""
        return information_gain(self.K, power=power, **self.observations(now)[2])

    def consider(self, index: int, now: float | None = None) -> Choice:
        """The prediction at an arm chosen by somebody else."""
        return self._choice(index, self.predict(now), self._root_beta(now), now)

    def at(self, choice: Choice, index: int) -> Choice:
        """The same round at another arm."""
        return self._choice(index, choice.prediction, choice.sqrt_beta, choice.time)

    def choose(self, now: float | None = None) -> Choice:
        """The best score with the tie rule; without data, the score of the prior."""
        prediction, root_beta = self.predict(now), self._root_beta(now)
        score, unit = self._score(prediction, root_beta)
        return self._choice(winner(score, unit), prediction, root_beta, now)

    def _score(self, prediction: Prediction, root_beta: float) -> tuple[Array, float]:
        """The maximised score, and the variance that sets the unit of ties.

        ln EI and PI's argument have no unit; they tie within 1e-7.
        """
        sign = 1.0 if self.maximize else -1.0
        mean, sd = sign * prediction.mean, prediction.sd
        if self.exploration in ("ucb", "forced"):
            return mean + root_beta * sd, float(self.K.diagonal().max())
        if self.exploration == "directed":
            # The squared possible regret over the information, by logarithms.
            regret = (mean + root_beta * sd).max() - (mean - root_beta * sd)
            with np.errstate(divide="ignore"):
                return np.log(np.log1p(sd**2 / self.noise)) - 2 * np.log(regret), 1.0
        if not prediction.usable:  # nothing to improve on: the widest prior
            return np.log(sd), 1.0
        incumbent = mean[[row.index for row in prediction.usable]].max()
        u = (mean - incumbent) / sd
        if self.exploration == "pi":
            return u, 1.0
        if self.exploration == "ei":
            return np.log(sd) + log_improvement(u), 1.0
        raise ValueError(f"{self.exploration} draws its arm; consider() what was drawn")

    def recommend(self, now: float | None = None) -> int:
        """Best posterior mean, by the same tie rule."""
        mean = self.predict(now).mean
        return winner(mean if self.maximize else -mean, float(self.K.diagonal().max()))

    def tell(
        self,
        choice: Choice,
        y: float,
        time: float | None = None,
        *,
        ok: bool = True,
        noise: float | None = None,
    ) -> bool:
        """Observe y; returns whether a rule reset.

        A failed measurement counts as a round; it neither teaches nor triggers.
        """
        variance = self.noise if noise is None else noise
        when = choice.time if time is None else time
        row = Row(choice.index, when, y, variance if ok else math.inf)
        seen = Seen(row.y, choice.mean, choice.sd, row.noise)
        self.rules, fired = self.rules.observed(row, seen)
        if self.consultant is not None and self.consultant.due(len(self.rows)):
            usable = self.consultant.answers(self.K, self.rows, self.noise)
            if usable:
                self.answers, self.answered = usable, len(self.rows)
        return fired

    def _root_beta(self, now: float | None) -> float:
        t = len(self.rows) + 1
        if not self.gains:
            return self.sqrt_beta(t, math.nan, math.nan)
        return self.sqrt_beta(t, self.gain(now), self.gain(now, power=2))

    def _choice(
        self, index: int, prediction: Prediction, root_beta: float, now: float | None
    ) -> Choice:
        return Choice(
            index=index,
            mean=float(prediction.mean[index]),
            sd=float(prediction.sd[index]),
            sqrt_beta=root_beta,
            time=self.default_now() if now is None else now,
            prediction=prediction,
        )
