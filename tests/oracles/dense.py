"""The textbook: one trial, float64, numpy, every formula written out densely.

Nothing here is clever or fast. Each round builds the full covariance of the retained observations
and solves with it. The library is tested against this module, so it shares no code with it.

A model is told by plain tuples:

* decay: ``("static",)``, ``("markov", epsilon)``, ``("wiener", sigma_w2)``;
* inflation: ``("constant",)``, ``("exponential", gamma)``, ``("injection", alpha, kappa)``;
* retention: ``("all",)``, ``("period", N, by)``, ``("window", W, by)``, ``("trigger", delta)``
  with ``by`` either ``"rounds"`` or ``"time"``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Part = tuple[str] | tuple[str, float] | tuple[str, float, str] | tuple[str, float, float]
Multiplier = Callable[[int, float, float], float]


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
    """
    if decay[0] == "static":
        return np.ones((len(first), len(second)))
    if decay[0] == "markov":
        return (1.0 - decay[1]) ** (np.abs(np.subtract.outer(first, second)) / 2.0)
    if decay[0] == "wiener":
        return 1.0 + decay[1] * (np.minimum.outer(first, second) - origin)
    raise ValueError(decay)


def noise_factor(inflation: Part, lag: Array) -> Array:
    """Growth of an observation's noise with its lag, 1 at lag 0: `n`.

    Exponential weights: gamma^(-lag) ([W22] (2)-(3)). Injection: 1 + kappa lag^alpha with
    0^0 := 0 ([M] (8)-(10)).
    """
    lag = np.asarray(lag, dtype=np.float64)
    if inflation[0] == "constant":
        return np.ones_like(lag)
    if inflation[0] == "exponential":
        with np.errstate(over="ignore"):
            return np.float64(inflation[1]) ** (-lag)
    if inflation[0] == "injection":
        alpha, kappa = inflation[1], inflation[2]
        return np.array([1.0 + kappa * (s**alpha if s > 0 else 0.0) for s in lag])
    raise ValueError(inflation)


def regression(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    y: Sequence[float],
    now: float,
    *,
    noise: float,
    decay: Part = ("static",),
    inflation: Part = ("constant",),
    reference: float | None = None,
    origin: float | None = None,
) -> tuple[Array, Array]:
    """Posterior mean and variance of f_now at every arm from the given observations alone.

        mean = k~' (K~ + N)^-1 y,    var = k(x, x) D(now, now) - k~' (K~ + N)^-1 k~

    Args:
        K: kernel matrix of the arms, `M x M`.
        index: arms observed, `n`.
        times: when, `n`.
        y: what, `n`.
        now: time of the prediction.
        noise: observation noise variance at lag 0.
        decay: how covariance decays with time.
        inflation: how noise grows with lag.
        reference: lags count back from here; the newest of ``times`` where None.
        origin: zero of the Wiener model's time; the oldest of ``times`` (``now`` without data)
            where None.

    Returns:
        Mean and variance, `M` each.
    """
    t = np.asarray(times, dtype=np.float64)
    at = np.asarray([now], dtype=np.float64)
    if origin is None:
        origin = float(t.min()) if len(t) else now
    prior = K.diagonal() * decay_between(decay, at, at, origin)[0, 0]
    if len(t) == 0:
        return np.zeros(len(K)), prior
    if reference is None:
        reference = float(t.max())
    factor = noise_factor(inflation, reference - t)
    heard = np.isfinite(factor)  # an infinitely noisy observation says nothing
    arms, t, values = np.asarray(index)[heard], t[heard], np.asarray(y, dtype=np.float64)[heard]
    among = K[np.ix_(arms, arms)] * decay_between(decay, t, t, origin)
    across = K[arms, :] * decay_between(decay, t, at, origin)
    solution = np.linalg.solve(
        among + np.diag(noise * factor[heard]), np.column_stack([values, across])
    )
    mean = across.T @ solution[:, 0]
    variance = prior - (across * solution[:, 1:]).sum(0)
    return mean, variance


def information_gain(
    K: Array,
    index: Sequence[int],
    times: Sequence[float],
    *,
    noise: float,
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
        scale = 1.0 / np.sqrt(noise * noise_factor(inflation, reference - t) ** power)
    return 0.5 * float(np.linalg.slogdet(np.eye(len(t)) + scale[:, None] * among * scale)[1])


def winner(score: Array, largest_prior_variance: float) -> int:
    """The lowest index whose score is within 1e-7 sqrt(max k(x, x)) of the maximum."""
    tolerance = 1e-7 * math.sqrt(largest_prior_variance)
    for index, value in enumerate(score):
        if value >= score.max() - tolerance:
            return index
    raise ValueError("no score is a number")


def trigger_threshold(sd: float, noise: float, rounds: int, delta: float) -> float:
    """Lemma 3 of [ET]: sqrt(2 L) sd + sqrt(2 noise L), L = ln(2 pi_t' / delta).

    pi_t' = pi^2 t'^2 / 6 with t' = ``rounds`` since the last reset.
    """
    L = math.log(2.0 * (math.pi**2 * rounds**2 / 6.0) / delta)
    return math.sqrt(2.0 * L) * sd + math.sqrt(2.0 * noise * L)


@dataclass(frozen=True)
class Row:
    """One told round."""

    index: int
    time: float
    y: float


@dataclass(frozen=True)
class Prediction:
    """What is believed about f_now, `M` each, and the rows it rests on."""

    mean: Array
    variance: Array
    rows: list[Row]


@dataclass(frozen=True)
class Choice:
    """An arm, the prediction there before it is observed, and √beta of the round."""

    index: int
    mean: float
    sd: float
    multiplier: float
    time: float
    prediction: Prediction


@dataclass
class DenseBandit:
    """Plays rounds by the book.

    Args:
        K: kernel matrix of the arms, `M x M`.
        noise: observation noise variance.
        decay: see the module.
        inflation: see the module.
        retention: see the module.
        multiplier: √beta of (round counted from 1 over all told rounds, g, double-weighted g).
    """

    K: Array
    noise: float
    decay: Part = ("static",)
    inflation: Part = ("constant",)
    retention: Part = ("all",)
    multiplier: Multiplier = lambda t, g, gbar: 0.0
    gains: bool = True  # whether the multiplier looks at them; they cost two determinants a round
    rows: list[Row] = field(default_factory=list)
    triggered: int = 0  # the round of the last trigger, 0 before any

    def default_now(self) -> float:
        """1 in the first round, else one after the newest time told."""
        return self.rows[-1].time + 1.0 if self.rows else 1.0

    def live(self, now: float) -> list[Row]:
        """The rows that count when the next round is decided at ``now``."""
        kind = self.retention[0]
        if kind == "all":
            return list(self.rows)
        if kind == "trigger":
            return self.rows[max(0, self.triggered - 1) :]  # the triggering point is kept
        size, by = self.retention[1], self.retention[2]
        if kind == "period" and by == "rounds":
            # Round s begins with an empty memory when (s - 1) mod N = 0.
            return self.rows[len(self.rows) - len(self.rows) % int(size) :]
        if kind == "period" and by == "time":
            if not self.rows:
                return []
            first = self.rows[0].time
            block = math.floor((now - first) / size)
            return [row for row in self.rows if math.floor((row.time - first) / size) == block]
        if kind == "window" and by == "rounds":
            return self.rows[max(0, len(self.rows) - int(size)) :]
        if kind == "window" and by == "time":
            return [row for row in self.rows if now - row.time <= size]
        raise ValueError(self.retention)

    def origin(self, rows: list[Row], now: float) -> float:
        """Time of the first observation since the last reset; ``now`` where there is none.

        A window slides without resetting: its time counts from the first observation of all.
        """
        if self.retention[0] == "window":
            rows = self.rows
        return rows[0].time if rows else now

    def _settings(self, now: float | None) -> tuple[float, list[Row], dict[str, object]]:
        at = self.default_now() if now is None else now
        rows = self.live(at)
        newest = self.rows[-1].time if self.rows else at
        return (
            at,
            rows,
            {
                "noise": self.noise,
                "decay": self.decay,
                "inflation": self.inflation,
                "reference": newest if now is None else now,
                "origin": self.origin(rows, at),
            },
        )

    def predict(self, now: float | None = None) -> Prediction:
        """Posterior of f_now at every arm, deciding the next round at ``now``."""
        at, rows, settings = self._settings(now)
        index, times, y = (
            [row.index for row in rows],
            [row.time for row in rows],
            [row.y for row in rows],
        )
        mean, variance = regression(self.K, index, times, y, at, **settings)  # type: ignore[arg-type]
        return Prediction(mean, variance, rows)

    def gain(self, now: float | None = None, power: int = 1) -> float:
        """Information gain of the rows that count at ``now``."""
        _, rows, settings = self._settings(now)
        index, times = [row.index for row in rows], [row.time for row in rows]
        return information_gain(self.K, index, times, power=power, **settings)  # type: ignore[arg-type]

    def consider(self, index: int, now: float | None = None) -> Choice:
        """The prediction at an arm chosen by somebody else."""
        return self._choice(index, self.predict(now), self._root_beta(now), now)

    def choose(self, now: float | None = None) -> Choice:
        """Upper confidence bound with the tie rule; index 0 without data."""
        prediction, root_beta = self.predict(now), self._root_beta(now)
        score = prediction.mean + root_beta * np.sqrt(prediction.variance)
        index = winner(score, float(self.K.diagonal().max())) if prediction.rows else 0
        return self._choice(index, prediction, root_beta, now)

    def recommend(self, now: float | None = None) -> int:
        """Best posterior mean, by the same tie rule."""
        prediction = self.predict(now)
        return winner(prediction.mean, float(self.K.diagonal().max()))

    def tell(self, choice: Choice, y: float, time: float | None = None) -> bool:
        """Learn y; returns whether a trigger fired."""
        fired = False
        if self.retention[0] == "trigger":
            t = len(self.rows) + 1
            since = t - self.triggered
            limit = trigger_threshold(choice.sd, self.noise, since, self.retention[1])
            fired = abs(y - choice.mean) > limit
            self.triggered = t if fired else self.triggered
        self.rows.append(Row(choice.index, choice.time if time is None else time, y))
        return fired

    def _root_beta(self, now: float | None) -> float:
        t = len(self.rows) + 1
        if not self.gains:
            return self.multiplier(t, math.nan, math.nan)
        return self.multiplier(t, self.gain(now), self.gain(now, power=2))

    def _choice(
        self, index: int, prediction: Prediction, root_beta: float, now: float | None
    ) -> Choice:
        return Choice(
            index=index,
            mean=float(prediction.mean[index]),
            sd=float(np.sqrt(prediction.variance[index])),
            multiplier=root_beta,
            time=self.default_now() if now is None else now,
            prediction=prediction,
        )
