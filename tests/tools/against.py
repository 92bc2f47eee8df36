"""This tree against an earlier commit: the same choices and predictions, and how long they take.

    python -m tests.tools.against COMMIT [--timings] [--only TEXT]

Both versions play the same cases, each in a process of its own; the earlier one first, freely. The
other is then given its choices and readings, so that a tie costs nothing. In every round its
prediction at that choice must agree, to 1e-9 in float64 (1e-7 for the adaptive strategy) and 1e-4
in float32; choices of its own that differ are counted as ties. Studies must have the same regret,
but for counted ties; random streams are the same, so strategies that draw are compared draw by
draw. ``--timings`` runs twelve cases in turns, 15 times, in two processes of the earlier version
and one of this: the ratio of the former two says what noise is.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import math
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

ROUNDS, REPEATS = 24, 15
GIVEN: dict[str, Any] = {
    **{"noise": 0.02, "period": 9, "epsilon": 0.03, "window": 8, "sigma_w2": 0.01, "gamma": 0.95},
    **{"alpha": 1.0, "chance": 0.1, "epsilons": (0.0, 0.03), "windows": (4, 12), "block": 6},
    **{"horizon": ROUNDS, "beta": 2.0, "low": -3.0, "high": 3.0, "steps": 4},
    **{"cycle": 7.0, "cycle_lengthscale": 1.0},
}
"""Arguments of the presets, but for the kernel."""
Case = Callable[[Any], Any]
"""Plays, given the record of the earlier version or None, and returns its own."""


def value(X: Any, t: int) -> Any:
    """The objective, which jumps at half time."""
    return (5 * X.sum(-1) + 0.1 * t).sin() + (2.0 if t > ROUNDS // 2 else 0.0) * X[..., 0]


def presets() -> dict[str, list[str]]:
    """The presets of the version that is played, and their arguments from ``GIVEN``."""
    import botorch_tv.strategies as strategies

    made = {}
    for name, preset in inspect.getmembers(strategies, inspect.isfunction):
        listed = inspect.signature(preset).parameters.values()
        made[name] = [item.name for item in listed if item.default is item.empty]
        made[name] += ["steps"] if any(item.name == "steps" for item in listed) else []
        if missing := set(made[name]) - GIVEN.keys() - {"kernel"}:
            print(f"{name} is not played: GIVEN lacks {missing}", file=sys.stderr)
            del made[name]
    return made


def strategy_of(name: str) -> Any:
    """A preset, or a strategy of a stranger's parts."""
    from gpytorch.kernels import RBFKernel

    import botorch_tv.acquisition as acquisition
    import botorch_tv.forgetting as forgetting
    import botorch_tv.strategies as strategies

    kernel = RBFKernel().double()
    kernel.lengthscale = 0.25

    class Seasonal(forgetting.Decay):  # no Markov process
        def attenuation(self, elapsed: Any) -> Any:
            return (-0.05 * elapsed).exp() * (0.6 * elapsed).cos()

    class Recent(forgetting.Retention):
        def keep(self, log: Any) -> Any:
            return log.time > log.now.unsqueeze(-1) - 9.5

    class Halving(acquisition.Exploration):
        def score(self, candidates: Any) -> Any:
            return candidates.mean + candidates.sd

    own: Any = getattr(strategies, "GPStrategy", strategies.Strategy)
    given = {"kernel": kernel} | GIVEN
    if name == "seasonal":
        return own(kernel=kernel, noise=0.02, decay=Seasonal())
    if name == "stranger":
        return own(kernel=kernel, noise=0.02, retention=Recent(), exploration=Halving())
    return getattr(strategies, name)(**{argument: given[argument] for argument in presets()[name]})


def play(name: str, place: str, trials: int, dtype: str, before: Any) -> dict[str, Any]:
    """Choices, predictions and resets of a strategy; at the choices of ``before`` where given."""
    import torch

    from botorch_tv.strategies import Box, Grid

    strategy, kind = strategy_of(name), getattr(torch, dtype)
    domain = Grid.regular(points=7, dim=2) if place == "grid" else Box([(0.0, 1.0), (0.0, 1.0)])
    shape = (trials,) if trials > 1 else ()
    state = strategy.init(domain, batch_shape=shape, dtype=kind)
    generators = [torch.Generator().manual_seed(one) for one in range(trials)]
    generator = generators if trials > 1 else generators[0]
    found: dict[str, list[Any]] = {"X": [], "own": [], "mean": [], "sd": [], "reset": []}
    for t in range(1, ROUNDS + 1):
        own = strategy.ask(state, generator=generator)
        X = own.X if before is None else before["X"][t - 1]
        made = strategy.suggestion_at(state, X)
        y = value(X.double(), t).to(kind)
        state, info = strategy.tell(state, made, y, ok=torch.full(shape, t != 7))
        asked = strategy.consult(state, generator=generator)
        if asked is not None:
            state = strategy.absorb(state, asked, value(asked.X.double(), t).to(kind))
        for key, one in zip(found, (X, own.X, made.mean, made.sd, info.reset)):
            found[key].append(one)
    return found


def study(name: str, before: Any, **options: Any) -> dict[str, Any]:
    """Regret of a study."""
    import torch

    from botorch_tv.simulation import MarkovWorld, run_study
    from botorch_tv.strategies import Grid

    grid = Grid.regular(points=12, dim=2)
    world = MarkovWorld(grid, kernel=strategy_of("gp_ucb").kernel, epsilon=0.03, noise=0.02)
    played = {name: strategy_of(name)}
    result = run_study(world, played, **{"trials": 16, "horizon": 60, "progress": False, **options})
    return {"regret": [torch.tensor(result.data["regret"].values)]}


def resumed(before: Any) -> dict[str, Any]:
    """Regret of a study whose process is killed once a part of it is saved, then resumed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--study", folder]
        with subprocess.Popen(command) as running:
            while running.poll() is None and not any("et_gp" in str(f) for f in walk(folder)):
                time.sleep(0.01)
            running.kill()
        return study("et_gp_ucb", before, **SAVED, save_to=folder)


def walk(folder: str) -> list[Path]:
    """All files below a folder, finished ones alone."""
    return [f for f in Path(folder).rglob("*") if f.is_file() and "tmp" not in f.name]


def loop(before: Any) -> dict[str, Any]:
    """A loop with pending, late, failed and amended answers, saved and loaded."""
    import torch

    from botorch_tv import Loop

    one, made = Loop({"x": (0.0, 1.0), "y": (0.0, 1.0)}, pending=2), []
    for t in range(1, 16):
        number = one.ask(now=float(t))
        made.append(number.X)
        if t % 2 == 0:
            first, second = one.open
            points = (first, second) if t % 4 else (second, first)
            for place, asked in enumerate(points):
                late = t - 1.5 if t == 8 and place else None
                one.tell(float(value(asked.X, t)), suggestion=asked, ok=t != 6, time=late)
        if t == 10:
            one.amend(3, 0.5)
            with tempfile.TemporaryDirectory() as folder:
                one.save(Path(folder) / "loop.json")
                one = Loop.load(Path(folder) / "loop.json")
    X = torch.rand(9, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    posterior = one.posterior(X, now=20.0)
    return {"own": made, "X": made, "mean": [posterior.mean], "sd": [posterior.variance.sqrt()]}


def alone(dim: int, before: Any) -> dict[str, Any]:
    """The best value that an adaptive loop finds, round by round."""
    import torch

    from botorch_tv import Loop

    one, found = Loop([(0.0, 1.0)] * dim), []
    for t in range(1, 31):
        X = one.ask().X
        found.append(X)
        one.tell(float(value(X, t)))
    return {"own": found, "X": found, "mean": [torch.zeros(())]}


def compare(before: Any) -> dict[str, Any]:
    """The table of the command of this name."""
    import torch

    command = [sys.executable, "-m", "botorch_tv", "compare", "--quiet", "--strategies"]
    names, size = "GP,R,SW,TV,WGP,UI,ET", ["--trials", "64", "--horizon", "100"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, names, *size, "--out", folder], check=True, stdout=-3, cwd=folder)
        table = next(Path(folder).glob("*.csv")).read_text()
    numbers = [float(n) for line in table.splitlines()[1:] for n in line.split(",")[1:] if n]
    return {"regret": [torch.tensor(numbers)]}


def sampler(before: Any) -> dict[str, Any]:
    """What ``DriftSampler`` asks and recommends after the same trials."""
    import optuna
    import torch

    from botorch_tv.optuna import DriftSampler, best_now

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    space: dict[str, Any] = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    space["c"] = optuna.distributions.CategoricalDistribution(["a", "b"])
    study, means, make = (
        optuna.create_study(sampler=DriftSampler(time_key="t", seed=0)),
        [],
        optuna.trial.create_trial,
    )
    for number in range(24):
        params: dict[str, Any] = {"x": (number * 0.377) % 1, "c": "ab"[number % 3 == 0]}
        y = (params["x"] - 0.4) ** 2 + (params["c"] == "a")
        attrs = {"t": float(number)}
        study.add_trial(make(params=params, distributions=space, value=y, user_attrs=attrs))
        if number > 9:
            best = best_now(study, now=number + 1.0)
            means.append(torch.tensor([best.params["x"], best.mean, best.sd]))
    trial = study.ask()
    trial.set_user_attr("t", 24.0)
    asked = [torch.tensor(trial.suggest_float("x", 0.0, 1.0))]
    return {"X": asked, "own": asked, "mean": means}


def ax(before: Any) -> dict[str, Any]:
    """What the adaptive strategy of Ax generates and predicts."""
    import torch
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig

    import botorch_tv.ax as ours

    best = vars(ours).get("best_parameterization_now") or vars(ours)["best_now"]
    client, ranges, asked = Client(), {"x": (0.0, 1.0), "t": (0.0, 100.0)}, []
    client.configure_experiment(
        [RangeParameterConfig(name=n, parameter_type="float", bounds=b) for n, b in ranges.items()]
    )
    client.configure_optimization(objective="-cost")
    client.set_generation_strategy(ours.adaptive_generation_strategy("t"))
    for t in range(12):
        for index, params in client.get_next_trials(1, fixed_parameters={"t": float(t)}).items():
            asked.append(torch.tensor(params["x"]))
            client.complete_trial(index, {"cost": (params["x"] - 0.4 - 0.02 * t) ** 2})
    ((mean, variance),) = best(client, {"t": 12.0})[1].values()
    return {"X": asked, "own": asked, "mean": [torch.tensor([mean, variance])]}


def cases() -> dict[str, Case]:
    """All of them by name."""
    made: dict[str, Case] = {}
    for name in (*presets(), "seasonal", "stranger"):
        kinds = ("float64",) if name == "adaptive_gp_ucb" else ("float64", "float32")
        places = ("grid",) if name in ("r_perp", "rexp3") else ("grid", "box")
        for place, trials, kind in product(places, (1, 3), kinds):
            made[f"{name} {place} {trials} {kind}"] = partial(play, name, place, trials, kind)
        made[f"study {name}"] = partial(study, name)
        if name in COMPILED:
            made[f"study {name} compiled"] = partial(study, name, compiled=True)
    for name in ("gp_ucb", "et_gp_ucb", "tv_gp_ucb", "sw_gp_ucb"):
        made[f"long study {name}"] = partial(study, name, trials=256, compiled=False)
    made |= {f"loop of {dim}": partial(alone, dim) for dim in (1, 2, 6)}
    made |= {"resumed study": resumed, "loop": loop, "compare": compare}
    return {**made, "sampler": sampler, "ax": ax}


COMPILED = ("gp_ucb", "r_gp_ucb", "tv_gp_ucb", "et_gp_ucb", "ui_tvbo", "sw_gp_ucb")
SAVED: dict[str, Any] = {"trials": 32, "horizon": 200, "chunk": 4}
TIMED = (
    *(f"{name} grid 1 float64" for name in ("gp_ucb", "et_gp_ucb")),
    *(f"long study {name}" for name in ("gp_ucb", "et_gp_ucb", "tv_gp_ucb", "sw_gp_ucb")),
    "study et_gp_ucb compiled",
    "compare",
    *(f"loop of {dim}" for dim in (1, 2, 6)),
    "tv_gp_ucb box 1 float64",
)


def differences(name: str, before: dict[str, Any], after: dict[str, Any]) -> tuple[float, int]:
    """Largest difference of what must agree, and the number of choices that do not."""
    worst, ties = 0.0, 0
    pairs = [(key, *both) for key, old in before.items() for both in zip(old, after[key])]
    for key, one, other in pairs:
        one, other = one.double(), other.double()
        apart = (one - other).abs().masked_fill(one.isnan() & other.isnan(), 0.0)
        apart = apart.nan_to_num(nan=math.inf)  # NaN in one version alone
        if key in ("own", "regret"):
            ties += int((apart > 1e-6).sum())
        elif key != "X" or "own" not in before:
            worst = max(worst, float(apart.max()) if apart.numel() else 0.0)
    assert all(len(before[key]) == len(after[key]) for key in before), name
    return worst, ties


def child(record: Path | None, only: str) -> None:
    """Plays or times the cases that its standard input names."""
    import torch

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    every = cases()
    before = {} if record is None else pickle.loads(record.read_bytes())
    for line in sys.stdin:
        what, _, name = line.strip().partition(" ")
        if what == "time":
            start = time.perf_counter()
            every[name](None)
            print(time.perf_counter() - start, flush=True)
        else:
            names = [one for one in every if only in one and (record is None or one in before)]
            found = {one: every[one](before.get(one)) for one in names}
            Path(name).write_bytes(pickle.dumps(found))
            print("written", flush=True)


@contextlib.contextmanager
def process(tree: Path, *more: str) -> Iterator[Callable[[str], str]]:
    """A process that plays the version in a folder."""
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--child", *more]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, cwd=tree, **pipes) as running:

        def ask(line: str) -> str:
            assert running.stdin is not None
            assert running.stdout is not None
            print(line, file=running.stdin, flush=True)
            answer = running.stdout.readline()
            if not answer:
                raise RuntimeError(f"the process of {tree} ended at {line!r}")
            return str(answer.strip())

        yield ask
        running.terminate()


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("commit", nargs="?", help="the earlier version")
    parser.add_argument("--timings", action="store_true", help="time twelve cases, too")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--study", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.study:
        study("et_gp_ucb", None, **SAVED, save_to=options.study)
        return
    if options.child:
        child(options.record, options.only)
        return
    here = Path(__file__).resolve().parents[2]
    with tempfile.TemporaryDirectory() as folder:
        there, record, ours = Path(folder) / "tree", Path(folder) / "before", Path(folder) / "after"
        git = ["git", "-C", str(here), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", there, options.commit], check=True)
        try:
            with process(there, "--only", options.only) as ask:
                ask(f"play {record}")
            with process(here, "--only", options.only, "--record", str(record)) as ask:
                ask(f"play {ours}")
            before, after = (pickle.loads(one.read_bytes()) for one in (record, ours))
            bad = 0
            for name in before:
                limit = 1e-4 if "float32" in name else 1e-7 if "adaptive" in name else 1e-9
                worst, ties = differences(name, before[name], after[name])
                bad += worst > limit
                flag = "DIFFERS" if worst > limit else ""
                print(f"{name:40} {worst:9.1e}  ties {ties:3}  {flag}", flush=True)
            print(f"{len(before)} cases, {bad} differ")
            if options.timings:
                timings(there, here)
        finally:
            subprocess.run([*git, "remove", "--force", there], check=True)


def timings(there: Path, here: Path) -> None:
    """Twelve cases in turns: this version, and the earlier one once more, against the earlier."""
    with process(there) as first, process(there) as again, process(here) as ours:
        for name in TIMED:
            line, players = f"time {name}", (first, again, ours)
            runs = [[float(ask(line)) for ask in players] for _ in range(REPEATS + 1)]
            medians = [statistics.median(one) for one in zip(*runs[1:])]  # the first warms up
            same, ratio = (one / medians[0] for one in medians[1:])
            print(f"{name:36} {medians[0]:.3f} s  again {same:.2f}  now {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
