"""Prequential error of a stream learner that is retuned every week while its stream drifts.

    python -m benchmarks.statistics.streams [--worlds sea agrawal ...] [--first 100] [--seeds 6]
        [--players weekly adaptive tpe halving never] [--out FILE]

The learner is river's ``StandardScaler() | LogisticRegression(optimizer=SGD(lr), l2=l2,
intercept_lr=lr)``, computed for all seeds together. A week has 336 samples, a half-hour each. After
every week 20 trials replay this week, each with other parameters, from the weights with which the
learner began the week. Then the learner continues with the chosen parameters. The value of a trial
is its prequential error: each sample is predicted, then learned. The result is the prequential
error of the learner in use, after the first week, in which it has river's default parameters.

Players choose the parameters from the 20 trials of a week:

* *weekly*: a ``GPStrategy`` with the number of the week as time and a decay of its own,
  :class:`SharedWeek`: the trials of a week share its samples, and tell more about each other than
  about the next week. The learner uses the recommendation for the next week.
* *adaptive*: the same with ``adaptive_gp_ucb``, the default, to which time is continuous.
* *tpe*: Optuna's TPE, restarted every week; the trial with the lowest error is used.
* *halving*: successive halving of 60, 20 and 6 random settings on a ninth, a third and all of the
  week, restarted every week; together fewer samples than 20 trials.
* *never*: the setting that TPE finds after the first week, for good.

All streams are of river, of 9 weeks. Those of one seed are equal for all players, and differences
are paired. ``electricity`` is river's ``Elec2``, from its file or downloaded by it; seeds are 14
disjoint parts. The file is written after every player; another call resumes it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from optuna.samplers import TPESampler
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin
from benchmarks.statistics.paired import mean_and_error
from botorch_tv import Box, adaptive_gp_ucb
from botorch_tv.acquisition import Constant
from botorch_tv.files import write_whole
from botorch_tv.forgetting import Decay
from botorch_tv.loop.log import CAUTION
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.protocol import Strategy

WEEK, WEEKS, TRIALS = 336, 9, 20
"""Samples of a week, weeks of a stream, trials after a week."""
PHASE, EVERY = 3, 480
"""Weeks between changes of speed, and mean number of samples between abrupt changes."""
LOWEST, HIGHEST = np.log10([1e-3, 1e-6]), np.log10([3.0, 0.1])
"""Ranges of lr and l2 on a logarithmic scale."""
DEFAULT = np.array([0.01, 0.0])
RUNGS = ((9, 60), (3, 20), (1, 6))
"""Successive halving: one over the share of the week, and the number of settings."""
SHARE, RATE = 0.7, 0.05
"""What an earlier week tells about the next week, and the share forgotten in a week."""
FIRST = "weekly"
"""The player to whom differences are taken."""
PARTS = 14
"""Disjoint parts of Electricity."""
Sample = tuple[dict[Any, float], bool]


def phases(make: Callable[[int], Iterable[Any]], seed: int) -> Iterator[Any]:
    """Samples of a stream that changes abruptly, on average every ten days, at random times."""
    times = np.random.default_rng([seed, 5])
    for number in count():
        yield from islice(make(number), int(times.exponential(EVERY)) + 1)


def speeds(stream: Any, name: str, slow: float, fast: float) -> Iterator[Any]:
    """Samples of a stream that drifts slowly and fast in turn, three weeks each."""
    setattr(stream, name, slow)
    for number, sample in enumerate(stream):
        setattr(stream, name, fast if number // (PHASE * WEEK) % 2 else slow)
        yield sample


def river_stream(name: str, seed: int) -> Iterator[Sample]:
    """The samples of a stream."""
    from river.datasets import Elec2, synth
    from river.stream import iter_csv

    if name == "sea":
        first = seed % 4
        return phases(lambda n: synth.SEA((first + n) % 4, noise=0.1, seed=100 * seed + n), seed)
    if name == "agrawal":
        first = seed % 10
        return phases(lambda n: synth.Agrawal((first + n) % 10, seed=100 * seed + n), seed)
    if name == "sine":
        first = seed % 4
        return phases(lambda n: synth.Sine((first + n) % 4, 100 * seed + n, has_noise=True), seed)
    if name == "hyperplane":
        made = synth.Hyperplane(seed=seed, n_drift_features=10, noise_percentage=0.1)
        return speeds(made, "mag_change", 0.0, 0.02)
    if name == "rbf":
        made = synth.RandomRBFDrift(seed, seed, n_centroids=20, n_drift_centroids=20)
        return speeds(made, "change_speed", 0.0, 0.01)
    elec = Elec2()
    if not Path(elec.path).exists():
        elec.download()
    names = ("period", "nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
    numbers = dict.fromkeys(names, float)
    rows = iter_csv(str(elec.path), target="class", converters=numbers)
    part = islice(rows, seed % PARTS * WEEKS * WEEK, None)
    return (({name: x[name] for name in names}, y in ("UP", "1")) for x, y in part)


STREAMS = ("sea", "agrawal", "sine", "hyperplane", "rbf", "electricity")


def samples(name: str, seed: int, weeks: int = WEEKS) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features, `samples x d`, as by river's ``StandardScaler``, and classes."""
    rows = list(islice(river_stream(name, seed), weeks * WEEK))
    X = np.array([[float(value) for value in x.values()] for x, _ in rows])
    number = np.arange(1, len(X) + 1)[:, None]
    mean = X.cumsum(0) / number
    variance = ((X - X[0]) ** 2).cumsum(0) / number - (mean - X[0]) ** 2
    sd = np.sqrt(variance.clip(0))
    scaled = np.divide(X - mean, sd, out=np.zeros_like(X), where=sd > 1e-12)
    return scaled, np.array([bool(y) for _, y in rows])


def learn(
    weights: np.ndarray, X: np.ndarray, y: np.ndarray, setting: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predict and learn sample after sample.

    Args:
        weights: Weights and intercept at first, `n x (d + 1)`.
        X: Scaled features, `n x samples x d`.
        y: Classes, `n x samples`.
        setting: lr and l2, `n x 2`.

    Returns:
        Errors, `n x samples`, and the weights and intercept at last.
    """
    w, b = weights[:, :-1].copy(), weights[:, -1].copy()
    rate, decay = setting[:, :1], setting[:, :1] * setting[:, 1:]
    signs, errors = 2.0 * y - 1, np.empty(y.shape, dtype=bool)
    for t in range(y.shape[1]):
        x, sign = X[:, t], signs[:, t]
        z = (w * x).sum(1) + b
        errors[:, t] = (z > 0) != y[:, t]
        slope = -sign / (np.exp((z * sign).clip(-500, 500)) + 1)
        w -= rate * slope[:, None] * x + decay * w
        b -= rate[:, 0] * slope
    return errors, np.concatenate([w, b[:, None]], 1)


class Trials:
    """The learners of several seeds at the end of a week, whose trials replay this week.

    Args:
        weights: Weights at the beginning of the week, `n x (d + 1)`.
        X: Features of the week, `n x samples x d`.
        y: Classes, `n x samples`.
    """

    def __init__(self, weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> None:
        self.weights, self.X, self.y = weights, X, y

    def __call__(self, points: np.ndarray, share: int = 1) -> np.ndarray:
        """Errors in percent, `n`, of points of the unit cube, `n x 2`, on a share of the week."""
        until = self.y.shape[1] // share
        errors, _ = learn(self.weights, self.X[:, :until], self.y[:, :until], setting(points))
        return 100 * errors.mean(1)


def setting(points: np.ndarray) -> np.ndarray:
    """The parameters lr and l2 at points of the unit cube, `n x 2`."""
    return 10.0 ** (LOWEST + (HIGHEST - LOWEST) * points)


class SharedWeek(Decay):
    """1 within a week, and 0.7 (1 - 0.05)^(weeks / 2) between weeks."""

    def attenuation(self, elapsed: Tensor) -> Tensor:
        """The factor on covariance after some weeks, in the shape of ``elapsed``."""
        return torch.where(elapsed == 0, 1.0, SHARE * (1 - RATE) ** (elapsed / 2))


def weekly_strategy() -> Strategy:
    """A strategy for errors in percent, with a standard deviation of 10 over the settings."""
    with torch.device("cpu"):
        kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = 100.0, 0.3
    return GPStrategy(
        kernel=kernel,
        noise=1.0,
        decay=SharedWeek(),
        mean="estimated",
        width=Constant(2.0),
        maximize=False,
    )


class Ours:
    """A strategy of this library; a trial of the batch for each seed."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.strategy = self.made()
        box = Box(torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64))
        self.state = self.strategy.init(box, batch_shape=(len(seeds),))

    def chosen(self, week: int, trials: Trials, number: int) -> np.ndarray:
        """The setting for the next week, `n x 2`, after trials of a week."""
        for _ in range(number):
            asked = self.strategy.ask(self.state, now=float(week))
            y = torch.from_numpy(trials(asked.X.numpy()))
            self.state, _ = self.strategy.tell(self.state, asked, y)
        best = self.strategy.recommend(self.state, now=week + 1.0, caution=CAUTION)
        return setting(best.numpy())

    def made(self) -> Strategy:
        """The strategy."""
        return weekly_strategy()


class Adaptive(Ours):
    """The default strategy."""

    def made(self) -> Strategy:
        return adaptive_gp_ucb(maximize=False)


class Tpe:
    """Optuna's TPE, restarted every week."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = seeds

    def chosen(self, week: int, trials: Trials, number: int) -> np.ndarray:
        """The setting for the next week, `n x 2`, after trials of a week."""
        studies = [
            optuna.create_study(sampler=TPESampler(seed=1000 * seed + week)) for seed in self.seeds
        ]
        for _ in range(number):
            asked = [study.ask() for study in studies]
            points = [[trial.suggest_float(f"x{i}", 0, 1) for i in range(2)] for trial in asked]
            for study, trial, y in zip(studies, asked, trials(np.array(points))):
                study.tell(trial, float(y))
        best = [[study.best_params[f"x{i}"] for i in range(2)] for study in studies]
        return setting(np.array(best))


class Once(Tpe):
    """The setting that TPE finds after the first week."""

    found: np.ndarray | None = None

    def chosen(self, week: int, trials: Trials, number: int) -> np.ndarray:
        if self.found is None:
            self.found = super().chosen(week, trials, number)
        return self.found


class Halving:
    """Successive halving of random settings, restarted every week."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.random = [np.random.default_rng([seed, 3]) for seed in seeds]

    def chosen(self, week: int, trials: Trials, number: int) -> np.ndarray:
        """The setting for the next week, `n x 2`, after trials of a week."""
        points = np.stack([each.random((RUNGS[0][1], 2)) for each in self.random])
        for share, most in RUNGS:
            points = points[:, :most]
            found = np.stack([trials(points[:, k], share) for k in range(most)], 1)
            order = found.argsort(1, kind="stable")[..., None]
            points = np.take_along_axis(points, order, 1)
        return setting(points[:, 0])


PLAYERS: dict[str, Callable[[Sequence[int]], Any]] = {
    "weekly": Ours,
    "adaptive": Adaptive,
    "tpe": Tpe,
    "halving": Halving,
    "never": Once,
}


def play(
    player: str, name: str, seeds: Sequence[int], weeks: int = WEEKS, trials: int = TRIALS
) -> np.ndarray:
    """Prequential errors in percent in each week after the first, `seeds x (weeks - 1)`."""
    made, streams = PLAYERS[player](seeds), [samples(name, seed, weeks) for seed in seeds]
    X, y = (np.stack(each) for each in zip(*streams))
    now = np.zeros((len(seeds), X.shape[-1] + 1))
    used, found = np.tile(DEFAULT, (len(seeds), 1)), []
    for week in range(weeks):
        part = slice(WEEK * week, WEEK * (week + 1))
        errors, after = learn(now, X[:, part], y[:, part], used)
        found.append(100 * errors.mean(1))
        if week < weeks - 1:
            used = made.chosen(week, Trials(now, X[:, part], y[:, part]), trials)
        now = after
    return np.stack(found[1:], 1)


def compared(runs: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Errors of each player of a stream, and paired differences to the first."""
    found: dict[str, Any] = {}
    for player, rows in runs.items():
        found[player] = mean_and_error([float(np.mean(row)) for row in rows.values()])
        both = [seed for seed in rows if seed in runs.get(FIRST, {})]
        if player != FIRST and both:
            more = [float(np.mean(rows[seed])) - float(np.mean(runs[FIRST][seed])) for seed in both]
            found[f"{player} minus {FIRST}"] = mean_and_error(more) | {"seeds": len(both)}
    return found


def save(record: dict[str, Any], path: Path) -> None:
    """Compare the runs anew, print them and write the whole file."""
    record["worlds"] = {world: compared(runs) for world, runs in record["runs"].items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda file: file.write((json.dumps(record, indent=1) + "\n").encode()))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play what the file lacks, and return the record."""
    parser = command_line("statistics.streams", __doc__, seeds=6, worlds=STREAMS)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--players", nargs="+", choices=list(PLAYERS), default=list(PLAYERS))
    options: argparse.Namespace = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    facts = begin(1, seed=options.first, packages=("optuna", "river"))
    record: dict[str, Any] = {"benchmark": "streams", "environments": [], "worlds": {}, "runs": {}}
    if options.out.exists():
        record = json.loads(options.out.read_text())
    record["environments"].append(facts)
    for world in options.worlds:
        number = min(options.seeds, PARTS) if world == "electricity" else options.seeds
        for player in options.players:
            rows = record["runs"].setdefault(world, {}).setdefault(player, {})
            seeds = range(options.first, options.first + number)
            missing = [seed for seed in seeds if str(seed) not in rows]
            if missing:
                began = time.process_time()
                errors = play(player, world, missing)
                rows |= {str(seed): np.round(row, 3).tolist() for seed, row in zip(missing, errors)}
                save(record, options.out)
                seconds = time.process_time() - began
                print(f"{player} on {world}: {errors.mean():.2f} %, {seconds:.0f} s", flush=True)
    return record


if __name__ == "__main__":
    main()
