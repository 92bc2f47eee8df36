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
# # Learning how fast the world drifts
#
# A time-varying model needs a rate of change. In the Markov model of Bogunovic, Scarlett and
# Cevher (2016) it is one number, ε:
#
# $$f_{t+1} = \sqrt{1-\varepsilon}\, f_t + \sqrt{\varepsilon}\, g_{t+1},$$
#
# where every $g$ is a fresh draw of the whole objective. ε = 0 is a static world, ε = 1 a world
# that is new in every round.
#
# On a real machine ε has to be estimated. This notebook learns ε **from the log of an optimiser**
# and **from a panel of sensors**, with confidence intervals, and shows the cost of a wrong ε.

# %%
import math
import os
from importlib.metadata import version

import matplotlib.pyplot as plt
import numpy as np
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation import MarkovWorld, PanelWorld, run_study
from botorch_tv.simulation.panels import fit_epsilon, log_likelihood, make_panel
from botorch_tv.strategies import Grid, gp_ucb, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction

SMOKE_TEST = "SMOKE_TEST" in os.environ  # a small size, to check that everything runs
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
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
# ## What ε means
#
# The correlation between the objective now and Δ rounds ago is $(1-\varepsilon)^{\Delta/2}$. Its
# half-life is $\Delta_{1/2} = 2 \ln 2 \,/\, {-\ln(1-\varepsilon)}$, for small ε about 1.4/ε.


# %%
def half_life(epsilon):
    """Rounds after which the correlation is one half."""
    return 2 * math.log(2) / -math.log1p(-epsilon)


figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
age = np.arange(201)
for epsilon, colour in ((0.003, BLUE), (0.03, ORANGE), (0.3, RED)):
    label = f"ε = {epsilon}: halves in {half_life(epsilon):.3g} rounds"
    left.plot(age, (1 - epsilon) ** (age / 2), color=colour, label=label)
    fresh = np.random.default_rng(3).standard_normal(len(age))
    value = [fresh[0]]
    for g in fresh[1:]:
        value.append(math.sqrt(1 - epsilon) * value[-1] + math.sqrt(epsilon) * g)
    right.plot(age, value, color=colour, linewidth=1)
left.set(xlabel="rounds ago", ylabel="correlation with now", title="Correlation")
left.legend(fontsize=8)
right.set(xlabel="round", ylabel="f at one point", title="How it looks")
plt.show()

# %% [markdown]
# ## From the log of an optimiser
#
# A controller has tuned two parameters for 300 rounds. It assumed ε = 0.1, a cautious guess, and
# saved points, times and measurements. We simulate such a log, with ε = 0.03, noise variance 0.02
# and lengthscale 0.2.

# %%
ROUNDS = 40 if SMOKE_TEST else 300
NOISE = 0.02
kernel = RBFKernel()
kernel.lengthscale = 0.2
grid = Grid.regular(points=20, dim=2)


def log_of_a_bandit(epsilon, seed, rounds=ROUNDS):
    """Measurements of TV-GP-UCB, given ε = 0.1: X (two parameters and time) and Y."""
    world = MarkovFunction(kernel, epsilon=epsilon, dim=2, horizon=rounds, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    strategy = tv_gp_ucb(kernel=kernel, noise=NOISE, epsilon=0.1)
    state = strategy.init(grid)
    X, Y = [], []
    for t in range(1, rounds + 1):
        suggestion = strategy.ask(state)
        x = torch.cat([suggestion.X, torch.tensor([float(t)])])
        y = world(x.unsqueeze(0))[0] + NOISE**0.5 * torch.randn((), generator=generator)
        state, _ = strategy.tell(state, suggestion, y)
        X.append(x)
        Y.append(y)
    return torch.stack(X), torch.stack(Y).unsqueeze(-1)


X, Y = log_of_a_bandit(epsilon=0.03, seed=1)
print(f"{len(X)} rounds, {len(X[:, :2].unique(dim=0))} different places, mean {Y.mean():.2f}")

# %% [markdown]
# Learning ε is ordinary fitting: ε is a parameter of `TimeVaryingGP`, and BoTorch's
# `fit_gpytorch_mll` finds it together with all others.
#
# One thing differs from the usual loop. An optimiser measures where values are high, so the
# variance of its log is not the variance of the objective, and the default kernel of
# `SingleTaskGP` has no output scale. To learn ε as a number, wrap the spatial kernel in a
# `ScaleKernel`.


# %%
def fitted(X, Y):
    """A model of the log with everything learned: ε, lengthscale, scale, noise, mean."""
    model = TimeVaryingGP(X, Y, spatial_module=ScaleKernel(RBFKernel()))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


model = fitted(X, Y)
learned = model.covar_module.temporal.epsilon.item()
variance = model.outcome_transform.stdvs.item() ** 2  # the model works on standardised outcomes
print("            learned  truth")
print(f"epsilon     {learned:7.4f}  0.03")
print(f"lengthscale {model.covar_module.spatial.base_kernel.lengthscale.item():7.3f}  0.2")
print(f"noise       {variance * model.likelihood.noise.item():7.4f}  {NOISE}")
print(f"scale       {variance * model.covar_module.spatial.outputscale.item():7.3f}  1.0")

# %% [markdown]
# ### Confidence interval
#
# Fix ε at a series of values and learn the rest anew: the log marginal likelihood shows which
# rates the log can distinguish. Rates within 1.92 of the maximum form a 95 % confidence interval,
# by the usual rule for one parameter.


# %%
def profile(model, epsilons):
    """The log marginal likelihood of the data for given rates, all else learned anew for each."""
    rate = model.covar_module.temporal
    curve = []
    for epsilon in epsilons:
        rate.epsilon = torch.tensor(epsilon)
        rate.raw_epsilon.requires_grad_(False)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        model.train()  # the prior, at the training inputs
        with torch.no_grad():
            expected = model.likelihood(model(*model.train_inputs), *model.train_inputs)
            curve.append(expected.log_prob(model.train_targets).item())
    return np.array(curve)


def interval(epsilons, curve):
    """Where the log likelihood is within 1.92 of the best, between the rates by straight lines."""
    fine = np.geomspace(epsilons.min(), epsilons.max(), 2000)
    inside = fine[np.interp(fine, epsilons, curve) >= curve.max() - 1.92]
    return inside.min(), inside.max()


around = learned * np.geomspace(0.2, 5, 3 if SMOKE_TEST else 25)
curve = profile(model, around)
low, high = interval(around, curve)
print(f"epsilon = {learned:.3f}, 95 % between {low:.3f} and {high:.3f}")


def draw_curve(axes, epsilons, curve, truth, best):
    """Log likelihood below its best over ε, with the interval shaded."""
    low, high = interval(epsilons, curve)
    axes.plot(epsilons, curve - curve.max(), color=BLUE)
    axes.axvspan(low, high, color=BLUE, alpha=0.15, linewidth=0, label="95 % interval")
    axes.axvline(best, color=BLUE, linestyle="dotted", label=f"learned: {best:.3f}")
    axes.axvline(truth, color=RED, linestyle="dashed", label=f"truth: {truth}")
    axes.set(xscale="log", xlim=(5e-3, 0.5), ylim=(-30, 2))
    axes.set(xlabel="ε", ylabel="log likelihood below the best")
    axes.legend(fontsize=8, loc="lower right")


figure, axes = plt.subplots(figsize=(5.5, 3.2))
draw_curve(axes, around, curve, truth=0.03, best=learned)
axes.set_title(f"What {len(X)} rounds of a bandit say about ε")
plt.show()

# %% [markdown]
# ### More worlds, other rates
#
# One log is one draw. Here are several for each of four rates, always by a controller that assumes
# ε = 0.1.

# %%
RATES = (0.0, 0.1) if SMOKE_TEST else (0.0, 0.01, 0.03, 0.1)
SEEDS = range(1) if SMOKE_TEST else range(6)
found = {}
for rate in RATES:
    models = [fitted(*log_of_a_bandit(rate, seed)) for seed in SEEDS]
    found[rate] = np.array([model.covar_module.temporal.epsilon.item() for model in models])
    mean, error = found[rate].mean(), found[rate].std() / math.sqrt(max(len(SEEDS) - 1, 1))
    print(f"truth {rate:4}: learned {mean:.4f} ± {error:.4f}, largest {found[rate].max():.4f}")

# %%
figure, axes = plt.subplots(figsize=(5.5, 3.4))
for place, rate in enumerate(RATES):
    spread = np.linspace(-0.15, 0.15, len(SEEDS)) if len(SEEDS) > 1 else [0.0]
    axes.plot(place + np.array(spread), found[rate], "o", color=BLUE, markersize=5, alpha=0.8)
    axes.hlines(rate, place - 0.3, place + 0.3, color=RED, linestyle="dashed")
axes.set_yscale("symlog", linthresh=1e-3)
axes.set_yticks([0, 1e-3, 1e-2, 1e-1], ["0", "0.001", "0.01", "0.1"])
axes.set_ylim(-2e-4, 0.4)
axes.set_xticks(range(len(RATES)), [f"ε = {rate}" for rate in RATES])
axes.set(ylabel="learned ε", title="Learned from a bandit's log (dashed: truth)")
plt.show()

# %% [markdown]
# A static world is recognised: at the learned 0.0004 half of the correlation would last for more
# than 3,000 rounds, ten times the log. The prior stops most fits short of 0, since no log of 300
# rounds can say "never". The other rates come out right within a factor of about two. That is
# accurate enough, as the last section shows.
#
# ## From a panel of sensors
#
# A bandit measures one place per round. A network of sensors measures many places in every round,
# so it needs far fewer rounds. `make_panel` draws such a record: 20 sensors on a plane, 300
# rounds, a field with ε = 0.03 and noise variance 0.05.

# %%
TRUTH, READING_NOISE = 0.03, 0.05
PANEL_ROUNDS = 60 if SMOKE_TEST else 300
panel = make_panel(PANEL_ROUNDS, 20, epsilon=TRUTH, noise=READING_NOISE, cycle=0, gaps=0, seed=0)
places = torch.as_tensor(panel.coordinates)
between = RBFKernel()
between.lengthscale = 0.3
covariance = between(places).to_dense().detach().numpy()
fit = fit_epsilon(panel.values, covariance, READING_NOISE)
print(f"epsilon = {fit.epsilon:.4f}")

# %% [markdown]
# The fit used all 6,000 readings, and no covariance larger than 20 × 20: `fit_epsilon`
# diagonalises the covariance between sensors and runs one scalar Kalman filter for each
# eigenvalue. The right panel shows its likelihood, from `log_likelihood`, next to the likelihood
# from the bandit's log.

# %%
fine = fit.epsilon * np.geomspace(0.2, 5, 101)
panel_curve = log_likelihood(panel.values, covariance, READING_NOISE, fine)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, sharey=True)
draw_curve(left, around, curve, truth=0.03, best=learned)
left.set_title(f"A bandit: {len(X)} readings")
draw_curve(right, fine, panel_curve, truth=TRUTH, best=fit.epsilon)
right.set(title=f"A panel: {panel.values.size} readings", ylabel="")
plt.show()
low, high = interval(fine, panel_curve)
print(f"epsilon = {fit.epsilon:.4f}, 95 % between {low:.4f} and {high:.4f}")

# %% [markdown]
# ### Without a given covariance
#
# `fit_epsilon` was given the covariance between sensors and the noise variance. From the sensors'
# coordinates, a `TimeVaryingGP` learns both, and some of the rounds suffice: times need not be
# consecutive, and ε stays a rate *per round*.

# %%
some = np.arange(0, PANEL_ROUNDS, 30 if SMOKE_TEST else 20)
rows = [torch.cat([places, torch.full((20, 1), float(t))], dim=-1) for t in some]
readings = torch.as_tensor(panel.values[some]).reshape(-1, 1)
model = fitted(torch.cat(rows), readings)
print(f"{len(some)} of {PANEL_ROUNDS} rounds, {len(readings)} readings:")
print(f"  epsilon     {model.covar_module.temporal.epsilon.item():.3f}")
print(f"  lengthscale {model.covar_module.spatial.base_kernel.lengthscale.item():.3f}")

# %% [markdown]
# Without coordinates, `PanelWorld` estimates the covariance from the same readings. The estimate
# contains the noise of the readings, so the world looks faster than it is. A *cycle*, such as day
# and night, is no drift, but a model without a cycle attributes it to ε. Remove it first; here by
# fitting a sine of 48 rounds to each sensor.

# %%
DAY = 48
cycling = make_panel(
    PANEL_ROUNDS, 20, epsilon=TRUTH, noise=READING_NOISE, cycle=2.0, gaps=0, day=DAY
)
phase = 2 * np.pi * np.arange(PANEL_ROUNDS) / DAY
waves = np.stack([np.sin(phase), np.cos(phase)], axis=-1)
amplitudes, *_ = np.linalg.lstsq(waves, cycling.values, rcond=None)
estimated = PanelWorld(panel.values, train=PANEL_ROUNDS - 1).epsilon
with_cycle = fit_epsilon(cycling.values, covariance, READING_NOISE).epsilon
without_cycle = fit_epsilon(cycling.values - waves @ amplitudes, covariance, READING_NOISE).epsilon
print(f"truth                                  {TRUTH:.3f}")
print(f"covariance given                       {fit.epsilon:.3f}")
print(f"covariance estimated by PanelWorld     {estimated:.3f}")
print(f"covariance given, with a cycle         {with_cycle:.3f}")
print(f"covariance given, the cycle removed    {without_cycle:.3f}")

# %% [markdown]
# ## What a wrong ε costs
#
# Now the reverse: the world drifts at ε = 0.01, and TV-GP-UCB is given another rate. All
# strategies play the same 200 worlds, so differences are paired. (Figure 2c of the paper in small:
# 30 × 30 arms, 200 rounds.)

# %%
TRUE_RATE = 0.01
rates = (0.0, 0.01, 0.1) if SMOKE_TEST else (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
arms = Grid.regular(points=5 if SMOKE_TEST else 30, dim=2)
world = MarkovWorld(arms, kernel=kernel, epsilon=TRUE_RATE, noise=NOISE)
players = {
    f"given {rate}": tv_gp_ucb(kernel=kernel, noise=NOISE, epsilon=rate)
    if rate > 0
    else gp_ucb(kernel=kernel, noise=NOISE)
    for rate in rates
}
result = run_study(
    world,
    players,
    trials=4 if SMOKE_TEST else 200,
    horizon=10 if SMOKE_TEST else 200,
    progress=False,
)
totals = np.stack([result.total_regret(name) for name in players]) / result.data.sizes["round"]
extra = totals - totals[rates.index(TRUE_RATE)]  # paired: the same world, the same noise
error = extra.std(-1, ddof=1) / math.sqrt(extra.shape[-1])
print("  given   regret per round   more than if given the truth")
for rate, total, more, uncertainty in zip(rates, totals.mean(-1), extra.mean(-1), error):
    share = more / totals[rates.index(TRUE_RATE)].mean()
    print(f"{rate:7} {total:12.3f} {more:16.3f} ± {uncertainty:.3f} {share:8.0%}")

# %%
figure, axes = plt.subplots(figsize=(6.5, 3.4))
where = np.arange(len(rates))
axes.errorbar(where, totals.mean(-1), error, color=BLUE, marker="o", capsize=3)
axes.axvline(rates.index(TRUE_RATE), color=RED, linestyle="dashed", label="the truth")
axes.set_xticks(where, [f"{rate:g}" for rate in rates])
axes.set(xlabel="ε given to the strategy", ylabel="regret per round", ylim=(0, None))
axes.set_title("The cost of a wrong ε (bars: error of the paired difference)", fontsize=10)
axes.legend(loc="lower right")
plt.show()

# %% [markdown]
# The minimum is wide. A rate three times too small costs nothing here, and a rate ten times too
# small 11 %; three times too large, 17 %, and ten times, 42 %. So a factor of two, as from a log
# of 300 rounds, is accurate enough. The largest costs are at ε = 0, which assumes a static world,
# and at a strategy that forgets within a few rounds and explores for ever.
#
# ## How to read a learned ε
#
# * **Think in half-lives.** ε = 0.03 per round means that half of the correlation is gone after 46
#   rounds. A static model suffices only if the half-life is many times longer than the run: above,
#   ε = 0.01 has a half-life of 138 rounds, and 200 rounds that ignore it cost half as much again.
# * **Mind the unit.** ε is per unit of your time column. If the unit is a minute, the rate per
#   hour is $1-(1-\varepsilon)^{60}$.
# * **Read the interval, not the number.** If it reaches from "never" to "at once", the log is too
#   short, or never returned to the same place.
# * **Is it drift at all?** A model without cycles and noise attributes them to ε, and jumps too.
#   For a static world with jumps use an event trigger, `botorch_tv.strategies.et_gp_ucb`, which
#   needs no ε.
# * **Learning during the run:** refit a `TimeVaryingGP` in every round, as in *Time in your
#   existing BoTorch loop*, or give a strategy on a box `learning=Refit()` from
#   `botorch_tv.learning`. The confidence bounds of the papers are proved for a given ε and then no
#   longer hold.

# %%
for package in ("botorch_tv", "botorch", "gpytorch", "torch"):
    print(package, version(package))
