"""Answers to unknown arguments: what there is instead of the names that other packages use."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

OWN = ("self", "cls")
Made = TypeVar("Made", bound=Callable[..., Any])

INSTEAD = {
    "failed state": "Loop.tell(ok=False) reports a failure, and similar settings are avoided",
    "constraint inequality_constraints outcome_constraints parameter_constraints": "Loop(ranges, "
    "objective='yield', constraints=['pressure <= 5', 'a + b <= 1']) sets limits",
    "safe start": "Loop(ranges, constraints=, safe=0.99, start={...}) begins at a safe setting",
    "metric metrics objectives objective_name outcomes": "Loop(ranges, objective='yield') names "
    "outcomes, objective=['yield', '-energy'] has several",
    "direction directions goal minimize": "Loop(ranges, maximize=False) minimises",
    "batch_size count max_trials n n_points num q": "Loop.ask(n=4) makes 4 suggestions at once",
    "fixed_features fixed_parameters": "Loop.ask(fixed={'rate': 0.2}) holds parameters",
    "max_step max_travel_distances move_cost": "Loop(ranges, max_step={'heat': 20}) limits moves",
    "step step_size": "Float(0, 1, step=0.1) and Integer(2, 8, step=2) have steps",
    "is_ordered": "Choice('low', 'high', ordered=True) has an order",
    "n_calls n_iter n_trials num_trials total_trials": "call Loop.ask() as often as you measure",
    "acq_func acquisition model sampler surrogate": "give a strategy, Loop(gp_ucb(...), ranges)",
    "kernel": "gp_ucb(kernel=, noise=) takes a kernel; the default strategy learns it",
    "pruner": "nothing is pruned here; Optuna's create_study() takes a pruner",
    "kappa xi": "adaptive_gp_ucb(width=Constant(4)) sets the weight of exploration",
    "random_seed random_state": "seed=0 sets the seed",
    "noise noise_sd noise_std noise_var sem sigma yvar": "Loop.tell(y, noise=) takes the variance",
    "X bounds parameters pbounds point search_space vocs x": "Loop({'x': (20, 80)}) takes the "
    "ranges first, Loop.observe({'x': 55}, y) a point",
    "index number trial_index trial": "Loop.tell(y, suggestion=3) takes the number of a suggestion",
    "initial_points warm_start x0": "Loop.from_table(ranges, X, y) starts from measurements",
    "init_points n_initial_points n_startup_trials": "adaptive_gp_ucb(starts=4) sets their number",
    "now t time timestamp": "Loop.ask(now=) and Loop.tell(y, time=) take the time",
}
"""A sentence for names of arguments in Ax, BoTorch, Optuna, Xopt, scikit-optimize and others."""


@functools.cache
def _known(function: Callable[..., Any]) -> list[str]:
    """The names of the arguments that a function takes by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    arguments = inspect.signature(function).parameters.items()
    return [name for name, each in arguments if each.kind in named and name not in OWN]


def hinted(made: Made, guard: Callable[..., AbstractContextManager[Any]] = nullcontext) -> Made:
    """Wrap a function, or the ``__init__`` of a class, to answer unknown arguments.

    A ``TypeError`` states what there is instead of the first argument whose name is unknown.

    Args:
        made: The function or the class.
        guard: A function of the first argument, whose result every call enters.
    """
    owner: Any = made
    function = owner.__init__ if inspect.isclass(made) else made

    @functools.wraps(function)
    def wrapped(*args: Any, **given: Any) -> Any:
        known = _known(function)
        for name in (name for name in given if name not in known):
            near = difflib.get_close_matches(name, known, cutoff=0.8)
            hints = [f"did you mean {each}?" for each in near]
            hints += [f"{text}." for names, text in INSTEAD.items() if name in names.split()]
            hints += [f"its arguments are {', '.join(known) or 'none'}."]
            problem = f"{owner.__qualname__}() got an unexpected keyword argument {name!r}"
            raise TypeError(f"{problem}; {hints[0]}")
        with guard(*args[:1]):
            return function(*args, **given)

    if function is made:
        return wrapped  # type: ignore[return-value]
    owner.__init__ = wrapped
    return made
