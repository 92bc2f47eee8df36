# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Time in your existing BoTorch loop, before and after
#
# You have a loop that works: fit a `SingleTaskGP`, optimise an acquisition function, measure,
# repeat. But your objective changes with time. Tools wear, weather changes, users lose interest,
# and the best setting of this morning is a poor setting by noon.
#
# This notebook shows how such a loop fails, and the three changes that correct it:
#
# 1. store **time as a column** of `X`,
# 2. use a **`TimeVaryingGP`** instead of a `SingleTaskGP`,
# 3. **fix time to now** when you optimise the acquisition function.
#
# Everything else stays BoTorch.

# %%
import math
import os
import warnings
from importlib.metadata import version

import matplotlib.pyplot as plt
import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.cross_validation import efficient_loo_cv
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator.utils.warnings import NumericalWarning

from botorch_tv.acquisition.present import qLogNoisyExpectedImprovementAtPresent
from botorch_tv.forgetting import ExponentialWeights, Markov, UncertaintyInjection, Wiener
from botorch_tv.models import TimeVaryingGP
from botorch_tv.test_functions import DriftingAckley, Orbit

SMOKE_TEST = "SMOKE_TEST" in os.environ  # a small size, to check that everything runs
ROUNDS = 2 if SMOKE_TEST else 60
SEEDS = range(2) if SMOKE_TEST else range(6)
torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore", NumericalWarning)  # jitter of 1e-8, for points close together
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#777777"
plt.rcParams.update(
    {
        "figure.dpi": 80,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
)

# %% [markdown]
# ## A world that moves
#
# One parameter, and Ackley's function negated: a hill with ripples. The hill moves to and fro,
# once in 100 rounds. Its top always has the value 0, but its place changes. Time is the last
# column of `X`, so `problem.bounds` has two columns: the parameter and time.

# %%
problem = DriftingAckley(
    dim=1, bounds=[(-3.0, 3.0)], motion=Orbit(period=100), horizon=400, negate=True
)
NOISE = 0.2  # standard deviation of a measurement
knob = problem.spatial_bounds
ABOVE = {"loc": "lower right", "bbox_to_anchor": (1, 0.98), "ncols": 2, "fontsize": 8}  # a legend
KNOBS = torch.linspace(-3, 3, 121).unsqueeze(-1)
print(problem.bounds)


def at_time(x, t):
    """Settings `n x 1` with a column of time: the same time for all."""
    return torch.cat([x, torch.full_like(x, t)], dim=-1)


def draw_world(axes, times):
    """Values over time and knob, and the best setting as a line."""
    values = torch.stack([problem(at_time(KNOBS, t)) for t in times.tolist()], dim=-1)
    drawn = axes.pcolormesh(
        times, KNOBS.squeeze(-1), values, cmap="Greys_r", shading="nearest", rasterized=True
    )
    axes.plot(times, problem.path(times), color=RED, linewidth=1.5, label="best setting")
    axes.set(xlabel="time", ylabel="knob")
    return drawn


figure, axes = plt.subplots(figsize=(7.5, 2.8))
drawn = draw_world(axes, torch.arange(0.0, 100.0))
figure.colorbar(drawn, label="value")
axes.set_title("The world: lighter is better", loc="left", fontsize=11)
axes.legend(**ABOVE)
plt.show()

# %% [markdown]
# ## Before
#
# Here is the loop without time.


# %%
def before(X, Y, now):
    """Your loop: the next setting, and the model it was chosen by."""
    model = SingleTaskGP(X[:, :1], Y, input_transform=Normalize(d=1, bounds=knob))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = UpperConfidenceBound(model, beta=4.0)
    candidate, _ = optimize_acqf(acquisition, bounds=knob, q=1, num_restarts=2, raw_samples=32)
    return candidate, model


# %% [markdown]
# For a fair comparison all loops start from the same four random settings, at the same time, and
# meet the same noise in the same round. Every seed starts elsewhere on the path of the hill. The
# measure is the **regret** of each round: how much better the best setting of that moment would
# have been.


# %%
def run(loop, seed):
    """Run a loop; return X (settings and times), Y, the regret of every choice, the last model."""
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # for the starting points of optimize_acqf
    start = 40.0 * seed
    first = knob[0] + (knob[1] - knob[0]) * torch.rand(4, 1, generator=generator)
    X = torch.cat([first, start + torch.arange(4.0).unsqueeze(-1)], dim=-1)
    noise = NOISE * torch.randn(4 + ROUNDS, 1, generator=generator)
    Y = problem(X).unsqueeze(-1) + noise[:4]
    for number in range(4, 4 + ROUNDS):
        candidate, model = loop(X, Y, now=start + number)
        x = at_time(candidate, start + number)
        X, Y = torch.cat([X, x]), torch.cat([Y, problem(x).unsqueeze(-1) + noise[number]])
    return X, Y, problem.regret(X[4:]).numpy(), model


def draw_run(X, regret, title):
    """The loop's measurements and their regret."""
    _, (above, below) = plt.subplots(2, 1, figsize=(7.5, 4.2), sharex=True, height_ratios=[2, 1])
    draw_world(above, torch.arange(X[0, 1].item(), X[-1, 1].item() + 1))
    above.plot(X[4:, 1], X[4:, 0], "o", color=BLUE, markeredgecolor="white", label="chosen")
    above.set(xlabel="")
    above.set_title(title, loc="left", fontsize=11)
    above.legend(**ABOVE)
    below.bar(X[4:, 1], regret, color=BLUE)
    below.set(xlabel="time", ylabel="regret", ylim=(0, 12))
    plt.show()


X_before, Y_before, regret_before, model_before = run(before, seed=0)
draw_run(X_before, regret_before, "Before: the hill moves, the loop stays")
first, second = np.array_split(regret_before, 2)
print(f"mean regret: first half {first.mean():.2f}, second half {second.mean():.2f}")

# %% [markdown]
# To see why, compare the world after the last round with the model's posterior.


# %%
def draw_belief(axes, X, Y, model, timed, title):
    """The truth now against the model's mean and two standard deviations; old points faint."""
    now = X[-1, 1].item()
    with torch.no_grad():
        posterior = model.posterior(at_time(KNOBS, now) if timed else KNOBS)
    mean, deviation = posterior.mean.squeeze(-1), posterior.variance.sqrt().squeeze(-1)
    x = KNOBS.squeeze(-1)
    axes.plot(x, problem(at_time(KNOBS, now)), color=RED, label="truth now")
    axes.plot(x, mean, color=BLUE, label="model's mean")
    axes.fill_between(
        x, mean - 2 * deviation, mean + 2 * deviation, color=BLUE, alpha=0.15, linewidth=0
    )
    freshness = (0.93 ** (now - X[:, 1])).numpy()
    axes.scatter(X[:, 0], Y, color="black", alpha=freshness, s=18)
    axes.scatter([], [], color="black", s=18, label="measured")
    axes.set(title=title, xlabel="knob", ylim=(-16, 5))


figure, axes = plt.subplots(figsize=(4.6, 3))
draw_belief(axes, X_before, Y_before, model_before, timed=False, title="Before")
axes.set_ylabel("value")
axes.legend(fontsize=8, loc="upper left", ncols=3)
plt.show()
scale = model_before.outcome_transform.stdvs.item()  # the model works on standardised outcomes
fitted_noise = scale * model_before.likelihood.noise.item() ** 0.5
print(f"noise of a measurement: {NOISE}; fitted by the model: {fitted_noise:.2f}")

# %% [markdown]
# The model fits one curve to measurements of many different curves. It explains the change by
# **noise**, several times the true noise. Where it measured long ago it still predicts the old
# values; where it measured lately, old and new points contradict each other. No acquisition
# function can choose well from that.
#
# ## After
#
# The same loop with the three changes.


# %%
def after(X, Y, now):
    """The loop with time: three changes."""
    model = TimeVaryingGP(  # was: SingleTaskGP(X[:, :1], Y, input_transform=Normalize(d=1, ...))
        X, Y, input_transform=Normalize(d=2, indices=[0], bounds=knob)
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = UpperConfidenceBound(model, beta=4.0)
    candidate, _ = optimize_acqf(
        acquisition,
        bounds=problem.bounds,  # was: bounds=knob
        fixed_features={1: now},  # new
        q=1,
        num_restarts=2,
        raw_samples=32,
    )
    return candidate[:, :1], model


X_after, Y_after, regret_after, model_after = run(after, seed=0)
draw_run(X_after, regret_after, "After: the loop follows")
first, second = np.array_split(regret_after, 2)
print(f"mean regret: first half {first.mean():.2f}, second half {second.mean():.2f}")
print(f"learned rate of change: {model_after.covar_module.temporal.epsilon.item():.3f} per round")

# %% [markdown]
# Three points in the code:
#
# * `Normalize(d=2, indices=[0], ...)` names the columns to scale. Time stays unscaled, so a rate
#   of change has the same meaning as data arrive; a transform that changes time is refused.
# * `fixed_features={1: now}` fixes the column of time. Without it `optimize_acqf` would choose the
#   time too, and might choose the past. `at_present(acquisition, now=now)` from
#   `botorch_tv.acquisition.present` does the same; its candidates have the other columns only.
# * The rate of change is a parameter like any lengthscale, and `fit_gpytorch_mll` learns it.

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True)
draw_belief(axes[0], X_before, Y_before, model_before, timed=False, title="Before")
draw_belief(axes[1], X_after, Y_after, model_after, timed=True, title="After")
axes[0].set_ylabel("value")
axes[0].legend(fontsize=8, loc="upper left", ncols=3)
plt.show()

# %% [markdown]
# Before, the model is sure of values that are long gone: around 2 it expects about -5, where the
# truth is below -10. After, its band is wide where nothing was measured lately, and contains the
# truth nearly everywhere, except at the sharp tip of the hill. So the loop follows the hill. The
# remaining tall bars are explorations, which a moving world requires.
#
# ## Is it worth it?
#
# One run is one draw, so here are several. A third loop gives `SingleTaskGP` a column of time as
# an ordinary input.


# %%
def time_as_input(X, Y, now):
    """A SingleTaskGP whose second input is time."""
    model = SingleTaskGP(X, Y, input_transform=Normalize(d=2))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = UpperConfidenceBound(model, beta=4.0)
    candidate, _ = optimize_acqf(
        acquisition,
        bounds=problem.bounds,
        fixed_features={1: now},
        q=1,
        num_restarts=2,
        raw_samples=32,
    )
    return candidate[:, :1], model


LOOPS = {
    "SingleTaskGP": (before, GREY),
    "SingleTaskGP, time an input": (time_as_input, ORANGE),
    "TimeVaryingGP": (after, BLUE),
}
regret = {name: np.stack([run(loop, s)[2] for s in SEEDS]) for name, (loop, _) in LOOPS.items()}


def mean_and_error(values):
    """Mean over seeds and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / math.sqrt(len(values))


print(f"{'mean regret per round':29}   mean  error   less TimeVaryingGP (paired)")
for name, values in regret.items():
    mean, error = mean_and_error(values.mean(1))
    gap, gap_error = mean_and_error(values.mean(1) - regret["TimeVaryingGP"].mean(1))
    print(f"{name:29} {mean:6.2f} ±{error:5.2f}   {gap:6.2f} ±{gap_error:5.2f}")

# %%
figure, axes = plt.subplots(figsize=(7, 3.2))
for name, values in regret.items():
    mean, error = mean_and_error(values.cumsum(1))
    rounds = np.arange(1, len(mean) + 1)
    colour = LOOPS[name][1]
    axes.plot(rounds, mean, color=colour, label=name)
    axes.fill_between(rounds, mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
axes.set(xlabel="round", ylabel="regret so far", xlim=(1, ROUNDS), ylim=(0, None))
axes.set_title(f"Mean of {len(SEEDS)} runs, bands ± 1 standard error", fontsize=10)
axes.legend(loc="upper left")
plt.show()

# %% [markdown]
# The loop without time pays nearly twice as much as `TimeVaryingGP`. Time as an ordinary input
# makes up for nearly all of that: 0.20 ± 0.20 a round is no significant difference in six runs.
# This hill moves smoothly and constantly, as BoTorch's kernel assumes of every input. Elsewhere
# two things speak against it. Its priors are made for parameters in a unit cube; and `Normalize`
# stretches that cube as time passes, so a lengthscale in time means something else in every round.
# `MarkovKernel` forgets at a rate per unit of time, assumes no direction, and at ε = 0 is a model
# without time. Its prior assumes that a few hundredths are redrawn per round, which helps short
# logs.
#
# ## Which forgetting?
#
# `TimeVaryingGP(..., forgetting=...)` takes two kinds of forgetting:
#
# * A **decay** changes the *objective*. `Markov(epsilon)`, the default: it is redrawn a little in
#   every round. `Wiener(sigma_w2)`: it walks at random and never returns to its mean.
# * An **inflation** makes a measurement *noisier* with age. `ExponentialWeights(gamma)`: it counts
#   γ times less with every unit of time (Deng et al., 2022). `UncertaintyInjection(alpha, kappa)`:
#   its variance grows like a power of its age (Mauduit et al.).
#
# The picture shows the posterior mean after a value of 1 at time 0, measured once, and ten times
# at the same place and time.

# %%
FORGETTINGS = {
    "Markov(0.05)": (Markov(0.05), BLUE),
    "Wiener(0.05)": (Wiener(0.05), GREEN),
    "ExponentialWeights(0.95)": (ExponentialWeights(0.95), ORANGE),
    "UncertaintyInjection(1.0)": (UncertaintyInjection(1.0), RED),
}
ages = torch.arange(0.0, 121.0, 5.0)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True)
for name, (forgetting, colour) in FORGETTINGS.items():
    for count, line in ((1, "solid"), (10, "dashed")):
        space = RBFKernel()
        model = TimeVaryingGP(
            torch.zeros(count, 2),
            torch.ones(count, 1),
            train_Yvar=torch.full((count, 1), 0.1),
            forgetting=forgetting,
            spatial_module=space,
            learn_forgetting=False,
        )
        moments = []
        for age in ages.tolist():
            model.set_now(age)
            posterior = model.posterior(torch.tensor([[0.0, age]]))
            moments.append((posterior.mean.item(), posterior.variance.item() ** 0.5))
        mean, deviation = np.array(moments).T
        left.plot(ages, mean, color=colour, linestyle=line)
        right.plot(
            ages, deviation, color=colour, linestyle=line, label=name if count == 1 else None
        )
for count, line in (("once", "solid"), ("ten times", "dashed")):
    left.plot([], [], color="0.3", linestyle=line, label=f"measured {count}")
left.set(xlabel="age", title="Predicted value", ylim=(0, 1.05))
right.set(xlabel="age", title="Standard deviation", ylim=(0, None))
left.legend(fontsize=8, loc="lower left")
right.legend(fontsize=8, loc="upper left")
plt.show()

# %% [markdown]
# The dashed lines distinguish the kinds. Under a decay, ten old measurements soon say little more
# than one, since all measured a past objective. Under an inflation they add up, as independent
# noisy readings do. Under `Wiener` a value is never forgotten, only less certain.
#
# | your objective | use |
# |---|---|
# | drifts, and returns to typical values | `Markov`, the default |
# | drifts, and may not return | `Wiener` |
# | is static, but old records are doubtful | an inflation |
# | drifts, and old records are doubtful | both: `(Markov(0.01), inflation)` |
# | is static, then jumps | a strategy with an event trigger, `botorch_tv.strategies.et_gp_ucb` |
#
# ## What stays the same
#
# A `TimeVaryingGP` is a `SingleTaskGP` and works wherever it does. With the log of the last loop:

# %%
X, Y = X_after, Y_after
now = X[-1, 1].item() + 1
model = TimeVaryingGP(X, Y, input_transform=Normalize(d=2, indices=[0], bounds=knob))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
print(f"{len(X)} observations, rate of change {model.covar_module.temporal.epsilon.item():.3f}")

# %% [markdown]
# **Adding a measurement** without a refit, in O(n²):

# %%
x = torch.tensor([[0.5, now]])
grown = model.condition_on_observations(x, problem(x).unsqueeze(-1))
print(f"{len(model.train_targets)} -> {len(grown.train_targets)} observations")

# %% [markdown]
# **Fantasies**, the model after a hypothetical measurement:

# %%
fantasies = model.fantasize(x, SobolQMCNormalSampler(torch.Size([8]), seed=0))
print(fantasies.posterior(at_time(KNOBS, now)).mean.shape)  # fantasies x points x outputs

# %% [markdown]
# **Leave-one-out cross-validation** is a quick test of drift: compare the two models on the same
# log.

# %%
untimed = SingleTaskGP(X[:, :1], Y, input_transform=Normalize(d=1, bounds=knob))
fit_gpytorch_mll(ExactMarginalLogLikelihood(untimed.likelihood, untimed))
for name, candidate in (("SingleTaskGP", untimed), ("TimeVaryingGP", model)):
    removed = efficient_loo_cv(candidate)
    error = (removed.posterior.mean.flatten() - removed.observed_Y.flatten()).square().mean()
    print(f"{name:13} leave-one-out error {error.item() ** 0.5:.2f}")

# %% [markdown]
# **Other acquisition functions.** The best old `Y` is out of date, so do not pass it as `best_f`.
# Pass the best posterior mean at the present:

# %%
best_f = model.posterior(at_time(X[:, :1], now)).mean.max().item()
print(f"best value ever measured {Y.max().item():.2f}; best value expected now {best_f:.2f}")
candidate, _ = optimize_acqf(
    LogExpectedImprovement(model, best_f=best_f),
    bounds=problem.bounds,
    fixed_features={1: now},
    q=1,
    num_restarts=2,
    raw_samples=32,
)
print(f"LogEI chooses {candidate[0, 0]:.2f}; the best setting is {problem.path(now).item():.2f}")

# %% [markdown]
# The baseline of noisy expected improvement consists of past points, which must be moved to the
# present. `botorch_tv.acquisition.present` has a version that does so; its candidates have no
# column of time:

# %%
acquisition = qLogNoisyExpectedImprovementAtPresent(model, X_baseline=X, now=now)
candidate, _ = optimize_acqf(acquisition, bounds=knob, q=2, num_restarts=2, raw_samples=32)
print(f"qLogNEI chooses {candidate[0].item():.2f} and {candidate[1].item():.2f}")

# %% [markdown]
# ## In short
#
# | before | after |
# |---|---|
# | `X` of shape n × d | time as an additional column |
# | `SingleTaskGP(X, Y)` | `TimeVaryingGP(X, Y)` |
# | `Normalize(d)` | `Normalize(d + 1, indices=[...])`, without time |
# | `optimize_acqf(...)` | `optimize_acqf(..., fixed_features={d: now})` |
# | `best_f=Y.max()` | best posterior mean at the present |
# | `X_baseline=X` | `X` moved to the present |
#
# *Learning how fast the world drifts* shows how the rate of change is learned, and the cost of a
# wrong rate.

# %%
for package in ("botorch_tv", "botorch", "gpytorch", "torch"):
    print(package, version(package))
