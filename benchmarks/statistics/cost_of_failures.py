"""Cost of failed trials to ``Loop``, Optuna's ``DriftSampler`` and Ax's adaptive strategy.

    python -m benchmarks.statistics.cost_of_failures [--worlds NAME ...] [--seeds 10] [--first 100]
        [--out FILE]

- *one failure*: trial 20 of (x - a - .005 i)² + (y - b)² fails or is pruned; mean cost of trials
  21 to 36.
- *furnace*: four mixed parameters whose optimum drifts; 0, 5 and 15 % of 60 trials fail at random;
  regret of all trials, failures included.
- *pruner*: the first objective under Optuna's ``MedianPruner``, 40 trials; how many trials from the
  20th on are pruned, how many of these lie within 0.02 of a bound, mean cost of these trials; TPE
  for comparison.
- *forbidden*: measurements of a peak fail in a third of the square, of three shapes; fraction of
  suggestions 21 to 60 inside it, recommendations inside it, and the regret of the last one as a
  fraction of the range.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from benchmarks.statistics.paired import mean_and_error, read, standard_error
from botorch_tv.ax import adaptive_generation_strategy
from botorch_tv.loop import Loop
from botorch_tv.optuna import DriftSampler
from botorch_tv.strategies import Choice, Float, Integer
from botorch_tv.strategies.parameters import BoxParameter

Cost = Callable[[int, Mapping[str, Any]], float]
Outcomes = Sequence[str]
"""Of every trial: "ok", "failed" or "pruned"."""
PLAIN = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}
FURNACE: dict[str, BoxParameter | Choice] = {
    "temperature": Float(20.0, 80.0),
    "rate": Float(1e-4, 1.0, log=True),
    "layers": Integer(1, 8),
    "kind": Choice("sand", "salt"),
}
SD = 0.3
"""Noise of the furnace."""


def valley(seed: int) -> Cost:
    """(x - .3 - .005 i)² + (y - .6)², moved by up to .1 either way."""
    x, y = np.random.default_rng([6, seed]).uniform(-0.1, 0.1, 2)

    def cost(i: int, point: Mapping[str, Any]) -> float:
        return float((point["x"] - 0.3 - x - 0.005 * i) ** 2 + (point["y"] - 0.6 - y) ** 2)

    return cost


def furnace(seed: int) -> Cost:
    """Costs of four parameters above the minimum of a round."""
    own = np.random.default_rng([3, seed])
    at, layers = (own.uniform(0.25, 0.65), own.uniform(0.3, 0.7)), own.integers(2, 8)
    kind = "sand" if own.random() < 0.5 else "salt"

    def cost(i: int, point: Mapping[str, Any]) -> float:
        heat = (point["temperature"] - 20) / 60 - at[0] - 0.004 * i
        flow = 1 + math.log10(point["rate"]) / 4 - at[1]
        others = 0.4 * (point["layers"] - layers) ** 2 + 3 * (point["kind"] != kind)
        return float(10 * (heat**2 / 0.09 + flow**2 / 0.12) + others)

    return cost


def by_loop(
    space: Mapping[str, Any], cost: Cost, outcome: Outcomes, noise: np.ndarray, seed: int
) -> list[float]:
    """Costs of all trials of a loop."""
    loop, found = Loop(dict(space), maximize=False, seed=seed), []
    for i, error in enumerate(noise):
        point = loop.ask(now=float(i)).point
        found.append(cost(i, point))
        loop.tell(found[-1] + error, ok=outcome[i] == "ok")
    return found


def by_optuna(
    space: Mapping[str, Any], cost: Cost, outcome: Outcomes, noise: np.ndarray, seed: int
) -> list[float]:
    """Costs of all trials of an Optuna study."""
    found: list[float] = []

    def run(trial: optuna.Trial) -> float:
        trial.set_user_attr("t", float(trial.number))
        point = {name: _suggested(trial, name, part) for name, part in space.items()}
        found.append(cost(trial.number, point))
        if outcome[trial.number] == "failed":
            raise ArithmeticError
        if outcome[trial.number] == "pruned":
            raise optuna.TrialPruned
        return found[-1] + float(noise[trial.number])

    study = optuna.create_study(sampler=DriftSampler(time_key="t", seed=seed))
    study.optimize(run, n_trials=len(noise), catch=(ArithmeticError,))
    return found


def _suggested(trial: optuna.Trial, name: str, part: Any) -> Any:
    if isinstance(part, Choice):
        return trial.suggest_categorical(name, part.choices)
    if isinstance(part, Integer):
        return trial.suggest_int(name, part.low, part.high)
    return trial.suggest_float(name, part.low, part.high, log=part.log)


def by_ax(
    space: Mapping[str, Any], cost: Cost, outcome: Outcomes, noise: np.ndarray, seed: int
) -> list[float]:
    """Costs of all trials of an Ax experiment."""
    client, found = Client(random_seed=seed), []
    client.configure_experiment([*(_configured(*part) for part in space.items()), _TIME])
    client.configure_optimization(objective="-cost")
    client.set_generation_strategy(adaptive_generation_strategy("t", seed=seed))
    for i, error in enumerate(noise):
        ((index, point),) = client.get_next_trials(1, fixed_parameters={"t": float(i)}).items()
        found.append(cost(i, point))
        if outcome[i] == "ok":
            client.complete_trial(index, {"cost": found[-1] + error})
        elif outcome[i] == "failed":
            client.mark_trial_failed(index)
        else:
            client.mark_trial_early_stopped(index)
    return found


_TIME = RangeParameterConfig(name="t", parameter_type="float", bounds=(0.0, 1000.0))


def _configured(name: str, part: Any) -> RangeParameterConfig | ChoiceParameterConfig:
    if isinstance(part, Choice):
        values = list(part.choices)
        return ChoiceParameterConfig(name, values=values, parameter_type="str", is_ordered=False)
    kind, scaling = "int" if isinstance(part, Integer) else "float", "log" if part.log else None
    bounds = (part.low, part.high)
    return RangeParameterConfig(name, bounds=bounds, parameter_type=kind, scaling=scaling)


PLAYERS = {"Loop": by_loop, "DriftSampler": by_optuna, "Ax": by_ax}


def one_failure(seeds: range) -> dict[str, Any]:
    """Mean cost of trials 21 to 36 after an unsuccessful trial 20."""
    found: dict[str, Any] = {}
    for label, player in PLAYERS.items():
        for end in ("ok", "failed", "pruned"):
            if end == "pruned" and label != "DriftSampler":
                continue
            outcome = ["ok"] * 20 + [end] + ["ok"] * 16
            runs = [player(PLAIN, valley(seed), outcome, np.zeros(37), seed) for seed in seeds]
            costs = np.mean([run[21:] for run in runs], 1)
            found[f"{label}, {end}"] = mean_and_error(costs) | {"largest": float(np.max(costs))}
    return found


def glitches(seeds: range) -> dict[str, Any]:
    """Regret of all 60 trials where a fraction fails at random."""
    found: dict[str, Any] = {}
    for label, player in PLAYERS.items():
        clean: np.ndarray | None = None
        for share in (0.0, 0.05, 0.15):
            totals = []
            for seed in seeds:
                own = np.random.default_rng([4, seed])
                noise, fails = SD * own.standard_normal(60), own.random(60) < share
                outcome = ["failed" if fail else "ok" for fail in fails]
                totals.append(sum(player(FURNACE, furnace(seed), outcome, noise, seed)))
            total = np.array(totals)
            clean = total if clean is None else clean
            found[f"{label}, {share:.0%}"] = {
                "mean": float(total.mean()),
                "ratio": float((total.mean() - 0.6 * SD * 60) / clean.mean()),
                "difference": float((total - clean).mean()),
                "its standard error": standard_error(total - clean),
            }
    return found


def pruner(seeds: range) -> dict[str, Any]:
    """Trials that a pruner stops, and their costs."""
    found: dict[str, Any] = {}
    samplers: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
        "DriftSampler": lambda seed: DriftSampler(time_key="t", seed=seed),
        "TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
    }
    for label, sampler in samplers.items():
        pruned, walls, costs = 0, 0, []
        for seed in seeds:
            points: list[dict[str, float]] = []
            f = valley(seed)

            def run(
                trial: optuna.Trial, points: list[dict[str, float]] = points, f: Cost = f
            ) -> float:
                trial.set_user_attr("t", float(trial.number))
                points.append({name: trial.suggest_float(name, 0.0, 1.0) for name in PLAIN})
                cost = f(trial.number, points[-1])
                for step in range(5):
                    trial.report(cost + 0.05 * (4 - step), step)
                    if trial.should_prune():
                        raise optuna.TrialPruned
                return cost

            study = optuna.create_study(sampler=sampler(seed), pruner=optuna.pruners.MedianPruner())
            study.optimize(run, n_trials=40)
            costs.append(np.mean([f(i, points[i]) for i in range(20, 40)]))
            for trial in study.trials[20:]:
                if trial.state == optuna.trial.TrialState.PRUNED:
                    pruned += 1
                    walls += any(min(x, 1 - x) < 0.02 for x in trial.params.values())
        found[label] = {
            "share pruned": pruned / 20 / len(seeds),
            "of these at a wall": walls,
            "mean cost": float(np.mean(costs)),
            "standard error": standard_error(np.array(costs)),
        }
    return found


SHAPES: dict[str, Callable[[float, float], bool]] = {
    "side": lambda x, y: x > 0.67,
    "corner": lambda x, y: x + y > 1.18,
    "disc": lambda x, y: (x - 0.6) ** 2 + (y - 0.5) ** 2 < 0.33**2,
}


def forbidden(seeds: range) -> dict[str, Any]:
    """Suggestions and recommendations where measurements fail in a region."""
    found: dict[str, Any] = {}
    mesh = np.linspace(0, 1, 201)
    for shape, fails in SHAPES.items():
        inside, recommended, short = [], 0, []
        for seed in seeds:
            own = np.random.default_rng([5, seed])
            middle = (0.55, 0.5) if shape == "disc" else (0.8, 0.6)
            center = np.array(middle) + 0.1 * own.standard_normal(2)

            def f(x: float, y: float, center: np.ndarray = center) -> float:
                apart = (x - center[0]) ** 2 + (y - center[1]) ** 2
                return 50 + 40 * math.exp(-apart / (2 * 0.25**2))

            loop, count = Loop(PLAIN, seed=seed), 0
            for number in range(60):
                x, y = loop.ask().point.values()
                ok = not fails(x, y)
                count += number >= 20 and not ok
                loop.tell(f(x, y) + 0.5 * own.standard_normal() if ok else None, ok=ok)
                if number >= 20 and number % 5 == 4:
                    x, y = loop.recommend().values()
                    recommended += fails(x, y)
            best = max(f(x, y) for x in mesh for y in mesh if not fails(x, y))
            inside.append(count / 40)
            short.append((best - f(x, y)) / 40)
        found[shape] = {
            "share inside": float(np.mean(inside)),
            "largest share": float(np.max(inside)),
            "recommended inside": recommended,
            "short of the best": float(np.mean(short)),
            "standard error": standard_error(np.array(short)),
        }
    return found


WORLDS = {
    "one failure": one_failure,
    "furnace": glitches,
    "pruner": pruner,
    "forbidden": forbidden,
}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line("statistics.cost_of_failures", __doc__, worlds=WORLDS, seeds=10)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    options = parser.parse_args(arguments)
    facts = begin(1, seed=options.first)
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seeds = range(options.first, options.first + options.seeds)
    for name in options.worlds:
        found = WORLDS[name](seeds)
        record = read(options.out)
        record["worlds"][name] = {"environment": facts, "seeds": [seeds.start, seeds.stop], **found}
        write(record, options.out)
        print(name, found, flush=True)
    return read(options.out)


if __name__ == "__main__":
    main()
