"""The textbook of the adaptive bank: every history a Gaussian over f at all points, and m.

A member (ε, h, ℓ, ρ) assumes y = m + s g_t(x) + noise of variance s² ρ. Its histories are dense
means and covariances, in units of s², of g at all points that are ever measured or asked about,
with m as the last entry; s² is InverseGamma(A, B). The covariance of g is the exact squared
exponential.
"""

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_t

Array = NDArray[np.float64]
SHAPE = 2.0
"""A and B before any data."""


@dataclass(eq=False)
class History:
    log: float
    """Log-probability of the data and of the history."""
    mean: Array
    P: Array
    B: float
    since: float = -math.inf
    """Time of the first reading after the newest jump."""


@dataclass(eq=False)
class Member:
    K: Array
    """Prior covariance of g, with a last row and column of zeros."""
    rate: float
    hazard: float
    noise: float
    histories: list[History]

    def passed(self, history: History, gap: float, *, jump: bool) -> tuple[Array, Array]:
        """Mean and covariance after a time without measurements."""
        a = np.ones(len(self.K))
        a[:-1] = 0.0 if jump else (1 - self.rate) ** (gap / 2)
        return a * history.mean, a[:, None] * history.P * a + (1 - a[0] ** 2) * self.K


def log_student(e: Array, S: Array, A: float, B: float) -> float:
    """Log-density of Student's t with 2A degrees of freedom and squared scale (B / A) S."""
    q, root = len(e), np.linalg.cholesky(B / A * S)
    square = float(np.square(np.linalg.solve(root, e)).sum())
    constant = gammaln(A + q / 2) - gammaln(A) - q / 2 * np.log(2 * np.pi * A)
    return constant - np.log(root.diagonal()).sum() - (A + q / 2) * np.log1p(square / (2 * A))


class DenseBank:
    """All members of a bank, in standardised units of y and in units of time of the clock.

    Args:
        bank: Its parameters.
        U: All points of the unit cube that are ever measured or asked about, `N x d`.
    """

    def __init__(self, bank, U: Array):
        self.bank, self.A, self.time, self.information_gain = bank, SHAPE, None, 0.0
        self.members, N = [], len(U)
        square = np.square(U[:, None] - U).sum(-1)
        level = np.zeros((N + 1, N + 1))
        level[-1, -1] = 1.0
        parts = bank.lengthscales, bank.rates, bank.hazards, bank.noise_ratios
        self.sizes = [len(part) for part in parts]
        for lengthscale, *own in itertools.product(*parts):
            K = np.zeros_like(level)
            K[:N, :N] = np.exp(-0.5 * square / lengthscale**2)
            self.members.append(Member(K, *own, [History(0.0, np.zeros(N + 1), K + level, SHAPE)]))

        per = len(self.members) // self.sizes[0]
        groups = [self.members[first : first + per] for first in range(0, len(self.members), per)]
        self.groups: list[tuple[list[Member], list[int]]] = [(group, []) for group in groups]

    def shares(self) -> list[tuple[float, Member, History]]:
        """Every history with its probability and its member."""
        pairs = [(member, history) for member in self.members for history in member.histories]
        logs = np.array([history.log for _, history in pairs])
        return [(share, *pair) for share, pair in zip(np.exp(logs - logsumexp(logs)), pairs)]

    @property
    def weights(self) -> Array:
        """Lengthscales x rates x hazards x noise ratios."""
        total = {id(member): 0.0 for member in self.members}
        for share, member, _ in self.shares():
            total[id(member)] += share
        return np.reshape(list(total.values()), self.sizes)

    @property
    def noise(self) -> float:
        """Variance of a new measurement's noise."""
        return sum(w * member.noise * each.B for w, member, each in self.shares()) / (self.A - 1)

    @property
    def jump(self) -> float:
        """Probability that the newest jump came just before the newest measurement."""
        return sum(share for share, _, history in self.shares() if history.since == self.time)

    def observe(
        self, rows: list[int], y: Array, time: float, variance: Array | None = None
    ) -> None:
        """Learn from all readings of one time: the values ``y`` at the points ``rows``.

        A reading with a given variance, not NaN, has this noise; others have that of a member.
        """
        variance = np.full(len(rows), np.nan) if variance is None else variance
        self._remove_points()
        for _, retained in self.groups:
            retained += [row for row in dict.fromkeys(rows) if row not in retained]
        gap = 0.0 if self.time is None else time - self.time
        wrong = [self._log_outlier(*reading) for reading in zip(y, variance)]
        shares = [share for share, *_ in self.shares()]
        h = np.zeros((len(rows), len(self.members[0].K)))
        h[range(len(rows)), rows] = 1.0
        h[:, -1] = 1.0
        for member in self.members:
            stays = gap * np.log1p(-member.hazard)
            jumped = self._jumped(member, h, y, time, gap, variance) if stays < 0 else None
            for history in member.histories:
                share = shares.pop(0)
                mean, P = member.passed(history, gap, jump=False)
                noise = self._noise(member, history, variance)
                gain = self._drifted(history, noise, mean, P, h, y, np.array(wrong))
                history.log += stays
                self.information_gain += share * gain
            if jumped is not None:
                self._take_in(member, jumped)
        self.A, self.time = self.A + len(rows) / 2, time

    def _remove_points(self) -> None:
        """Let at most ``points`` points of each lengthscale represent all that was measured.

        The law of m and of g at the retained points does not change, and g elsewhere depends on g
        at the retained points as before any data. The point goes of whose deviation from the others
        least was learned: the square of the mean, and the decrease in variance, in prior sds.
        """
        for group, retained in self.groups:
            K = group[0].K[:-1, :-1]
            while len(retained) > getattr(self.bank, "points", math.inf):
                lost = []
                for i in retained:
                    others = [row for row in retained if row != i]
                    h = np.zeros(len(K) + 1)
                    h[others] = -np.linalg.solve(K[np.ix_(others, others)], K[others, i])
                    h[i] = 1.0
                    h /= np.sqrt(h[:-1] @ K @ h[:-1])
                    total = 0.0
                    for share, member, history in self.shares():
                        if member in group:
                            s2 = history.B / (self.A - 1)
                            total += share * (
                                (h @ history.mean) ** 2 + s2 * (1 - h @ history.P @ h)
                            )
                    lost.append(total)
                del retained[int(np.argmin(lost))]
                T = np.zeros((len(K) + 1, len(retained) + 1))
                T[:-1, :-1] = np.linalg.solve(K[np.ix_(retained, retained)], K[retained]).T
                T[-1, -1], rest = 1.0, group[0].K.copy()
                rest[:-1, :-1] -= T[:-1, :-1] @ K[retained]
                at = [*retained, len(K)]
                for history in itertools.chain(*(member.histories for member in group)):
                    history.mean = T @ history.mean[at]
                    history.P = T @ history.P[np.ix_(at, at)] @ T.T + rest

    def _noise(self, member: Member, history: History, variance: Array) -> Array:
        """Noise variances of readings in units of s²; a given one by the estimate of s²."""
        given = variance / (history.B / (self.A - 1))
        return np.where(np.isnan(given), member.noise, np.maximum(given, self.bank.tolerance))

    def _log_outlier(self, y: float, given: float) -> float:
        """Log of the probability of an outlier times its density at y: Student's t, 4 degrees."""
        if self.bank.outliers == 0:
            return -math.inf
        level = variance = 0.0
        for share, member, history in self.shares():
            level += share * history.mean[-1]
            noise = float(self._noise(member, history, np.array(given)))
            own = history.B / (self.A - 1) * (1 + noise + history.P[-1, -1])
            variance += share * own
        density = log_student(np.array([y - level]), 2 * np.array([[variance]]), 2.0, 2.0)
        return math.log(self.bank.outliers) + density

    def _drifted(self, history, noise, mean, P, h, y, wrong) -> float:
        """Update a history that no jump has ended; returns the information gain."""
        A, B, q = self.A, history.B, len(y)
        S, e = h @ P @ h.T + np.diag(noise), y - h @ mean
        log_right = math.log1p(-self.bank.outliers)
        alone = np.array([log_student(e[[i]], S[i : i + 1, i : i + 1], A, B) for i in range(q)])
        either = np.logaddexp(log_right + alone, wrong)
        r = np.exp(wrong - either)
        D = np.sqrt(1 - r)
        Sigma = S * np.outer(D, D)
        np.fill_diagonal(Sigma, S.diagonal())
        solved = np.linalg.solve(Sigma, D * e)
        again = [log_student(D[[i]] * e[i], S[i : i + 1, i : i + 1], A, B) for i in range(q)]
        history.log += either.sum() + log_student(D * e, Sigma, A, B) - sum(again)
        history.B = B + 0.5 * (D * e) @ solved + 0.5 * r.sum() * B / A
        G, between = P @ h.T, np.diag(r * solved**2) * (A + q / 2) / history.B
        history.mean = mean + G @ (D * solved)
        history.P = P - G @ (np.linalg.inv(Sigma) * np.outer(D, D) - between) @ G.T
        together = np.linalg.slogdet(Sigma)[1] - np.log(S.diagonal()).sum()
        return 0.5 * float((1 - r) @ np.log(S.diagonal() / noise) + together)

    def _jumped(
        self, member: Member, h: Array, y: Array, time: float, gap: float, variance: Array
    ) -> History:
        """One history of all that a jump just before the block ended."""
        A, q, ended = self.A, len(y), []
        log_chance = math.log(-math.expm1(gap * np.log1p(-member.hazard)))
        log_chance += q * math.log1p(-self.bank.outliers)
        for history in member.histories:
            mean, P = member.passed(history, gap, jump=True)
            S, e = h @ P @ h.T + np.diag(self._noise(member, history, variance)), y - h @ mean
            G, solved = np.linalg.solve(S, h @ P).T, np.linalg.solve(S, e)
            log = history.log + log_chance + log_student(e, S, A, history.B)
            B = history.B + 0.5 * e @ solved
            ended.append(History(log, mean + G @ e, P - G @ h @ P, B))
        logs = np.array([each.log for each in ended])
        share = np.exp(logs - logsumexp(logs))
        mean = sum(w * each.mean for w, each in zip(share, ended))
        B = sum(w * each.B for w, each in zip(share, ended))
        P = np.zeros_like(member.K)
        for w, each in zip(share, ended):
            apart = each.mean - mean
            P += w * (each.P + (A + q / 2) / B * np.outer(apart, apart))
        return History(float(logsumexp(logs)), mean, P, B, time)

    def _take_in(self, member: Member, new: History) -> None:
        """A new history replaces the least likely, but neither of the two with newest jumps."""
        if len(member.histories) == self.bank.histories:
            newest = sorted(each.since for each in member.histories)[-2:]
            others = [each for each in member.histories if each.since not in newest]
            gone = min(others, key=lambda each: each.log)
            total = logsumexp([each.log for each in member.histories])
            member.histories = [each for each in member.histories if each is not gone]
            more = total - logsumexp([each.log for each in member.histories])
            for each in member.histories:
                each.log += more
        member.histories.append(new)

    def moments(self, rows: list[int], times: list[float]) -> tuple[Array, Array]:
        """Joint mean and covariance of f at points, each at a time of its own, `q` and `q x q`."""
        ends = sorted({self.time, *times})
        place, gaps = [ends.index(time) for time in times], np.diff(ends)
        total, second = np.zeros(len(rows)), np.zeros((len(rows), len(rows)))
        for share, member, history in self.shares():
            s2, P = history.B / (self.A - 1), history.P
            for jumps in itertools.product([False, True], repeat=len(gaps)):
                chance, factors, at = share, [1.0], [history.P[:-1, :-1]]
                for gap, jump in zip(gaps, jumps):
                    stays = gap * np.log1p(-member.hazard)
                    chance *= -np.expm1(stays) if jump else np.exp(stays)
                    a = 0.0 if jump else (1 - member.rate) ** (gap / 2)
                    factors.append(a)
                    at.append(a**2 * at[-1] + (1 - a**2) * member.K[:-1, :-1])
                if chance == 0:
                    continue
                lasting = np.cumprod(factors)[place]
                mean = lasting * history.mean[rows] + history.mean[-1]
                edge = lasting * P[rows, -1]
                C = edge[:, None] + edge + P[-1, -1]
                for i, j in itertools.product(range(len(rows)), repeat=2):
                    first, last = sorted([place[i], place[j]])
                    between = math.prod(factors[first + 1 : last + 1])
                    C[i, j] += between * at[first][rows[i], rows[j]]
                total += chance * mean
                second += chance * (s2 * C + np.outer(mean, mean))
        return total, second - np.outer(total, total)


def log_density(relevance: Array, rate: float, noise: Array, X: Array, y: Array, t: Array) -> float:
    """Logarithm of the marginal density of readings of one process, up to a constant.

    Its relevances divide a lengthscale of 1; the constant has variance s², and s² is
    InverseGamma(2, 2). Logarithms of the parameters have no prior here.
    """
    square = np.square((X[:, None] - X) * relevance).sum(-1)
    K = np.exp(-0.5 * square - rate * np.abs(t[:, None] - t)) + 1 + np.diag(noise)
    return float(multivariate_t(np.zeros(len(y)), K, df=2 * SHAPE).logpdf(y))


@dataclass
class Prediction:
    """What a bank predicts, in the units of the data."""

    mean: Array
    covariance: Array
    noise: float
    weights: Array
    jump: float
    information_gain: float


def predicted(
    bank,
    X: Array,
    y: Array,
    times: Array,
    query: Array,
    when,
    *,
    clock=1.0,
    good=None,
    starts=4,
    variance=None,
    relevance=1.0,
) -> Prediction:
    """Learn from raw readings, all readings of one time as one, and predict.

    Args:
        bank: The parameters of the bank.
        X: Measured points of the unit cube, `n x d`.
        y: Readings, `n`.
        times: Their times in order, `n`.
        query: Points asked about, `q x d`.
        when: Their times, `q` or a number, not before the newest reading.
        clock: The unit of time.
        good: Which readings succeeded, `n`; all by default.
        starts: Number of readings whose mean and standard deviation are the units, with all other
            readings of the time of the last of them.
        variance: Given noise variances of the readings, NaN for others, `n`; none by default.
        relevance: Factors on the coordinates.
    """
    X, query = X * relevance, query * relevance
    variance = np.full(len(y), np.nan) if variance is None else np.asarray(variance)
    good = np.ones(len(y), bool) if good is None else np.asarray(good)
    first = good & (times <= times[good][starts - 1])
    centre, spread = y[first].mean(), y[first].std()
    U, place = np.unique(np.concatenate([X, query]), axis=0, return_inverse=True)
    dense, place = DenseBank(bank, U), place.ravel().tolist()
    blocks = defaultdict(list)
    for row in np.flatnonzero(good):
        blocks[times[row]].append(int(row))
    for time, rows in blocks.items():
        own = (y[rows] - centre) / spread, time / clock, variance[rows] / spread**2
        dense.observe([place[row] for row in rows], *own)
    whens = np.broadcast_to(np.asarray(when, float) / clock, len(query)).tolist()
    mean, covariance = dense.moments(place[len(X) :], whens)
    return Prediction(
        mean=centre + spread * mean,
        covariance=spread**2 * covariance,
        noise=spread**2 * dense.noise,
        weights=dense.weights,
        jump=dense.jump,
        information_gain=dense.information_gain,
    )
