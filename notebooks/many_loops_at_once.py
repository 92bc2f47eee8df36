# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Many loops at once
#
# A strategy is configuration; its *state* is a tuple of tensors. Give the state a `batch_shape`
# and as many independent loops advance together. Each has its own data, posterior, resets and
# suggestion, and makes the choices that it would make alone. `device="cuda"` moves the same lines
# to a GPU; no card has run them yet. The output below names the device.
#
# The question: *an objective is static for a while, then jumps. How much does each way of
# forgetting cost before the jump, and how much does it save after?* One run does not answer it,
# for chance is as large as the effect. Sixty-four do.

# %%
import os
import time

import matplotlib.pyplot as plt
import torch
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import Logarithmic
from botorch_tv.strategies import Box, et_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction

SMOKE_TEST = "SMOKE_TEST" in os.environ
torch.set_default_dtype(torch.float64)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BLACK, BLUE, VERMILION, GREY = "#000000", "#0072B2", "#D55E00", "#777777"
plt.rcParams.update(
    {
        "figure.dpi": 80,
        "figure.constrained_layout.use": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
)

loops = 4 if SMOKE_TEST else 64
horizon = 8 if SMOKE_TEST else 100
jump = horizon // 2

# %% [markdown]
# ## Sixty-four worlds
#
# `MarkovFunction` draws functions from a Gaussian process on the unit square, here one per loop.
# With $\varepsilon = 0$ they are static, and each is replaced after round 50.

# %%
kernel = RBFKernel()
kernel.lengthscale = torch.tensor(0.2)
noise = 0.02

worlds = MarkovFunction(
    kernel, epsilon=0.0, changes=(jump + 1,), horizon=horizon, batch_shape=(loops,), seed=1
).to(device)

fig, axes = plt.subplots(2, 4, figsize=(10, 5), sharex=True, sharey=True)
side = torch.linspace(0, 1, 40, device=device)
grid = torch.cartesian_prod(side, side)
for row, t in zip(axes, (1, jump + 1)):
    X = torch.cat([grid, torch.full((len(grid), 1), float(t), device=device)], -1)
    values = worlds.evaluate_true(X.expand(loops, -1, -1)).cpu()
    for ax, function in zip(row, values):
        place = {"origin": "lower", "extent": (0, 1, 0, 1), "vmin": -2.5, "vmax": 2.5}
        shown = ax.imshow(function.view(40, 40).T, **place)
    row[0].set_ylabel("before the jump\n$x_2$" if t == 1 else "after the jump\n$x_2$")
for ax in axes[1]:
    ax.set_xlabel("$x_1$")
fig.colorbar(shown, ax=axes, label="f")
fig.suptitle("Four of the worlds")
plt.show()

# %% [markdown]
# ## One loop, and many
#
# This is a complete loop. It does not depend on the number of loops: `suggestion.X` is
# `batch_shape x 2`, observations are `batch_shape`.


# %%
def play(strategy, loops, horizon):
    """Instantaneous regret and resets, each `loops x horizon`."""
    disturbance = torch.Generator().manual_seed(2)
    state = strategy.init(Box(worlds.spatial_bounds), batch_shape=(loops,))
    regret, resets = [], []
    for t in range(1, horizon + 1):
        suggestion = strategy.ask(state)
        X = torch.cat([suggestion.X, torch.full((loops, 1), float(t), device=device)], -1)
        X = X.unsqueeze(-2)
        truth = worlds.evaluate_true(X).squeeze(-1)
        y = truth + noise**0.5 * torch.randn(loops, generator=disturbance).to(device)
        state, info = strategy.tell(state, suggestion, y)
        regret.append(worlds.regret(X).squeeze(-1))
        resets.append(info.reset)
    return torch.stack(regret, -1).cpu(), torch.stack(resets, -1).cpu()


width = Logarithmic(c1=0.8, c2=4.0)  # the same for all: only forgetting differs
strategies = {
    "GP-UCB (never forgets)": gp_ucb(kernel=kernel, noise=noise, width=width),
    "TV-GP-UCB (forgets constantly)": tv_gp_ucb(
        kernel=kernel, noise=noise, epsilon=0.03, width=width
    ),
    "ET-GP-UCB (forgets at a trigger)": et_gp_ucb(kernel=kernel, noise=noise, width=width),
}
results = {}
for name, strategy in strategies.items():
    start = time.perf_counter()
    results[name] = play(strategy, loops, horizon)
    seconds = time.perf_counter() - start
    print(f"{name:36s} {loops} loops, {device}: {1e3 * seconds / horizon:.0f} ms a round")

# %% [markdown]
# ## The result
#
# Lines are means over loops, bands ± 2 standard errors.

# %%
colours = dict(zip(strategies, (BLACK, BLUE, VERMILION)))
fig, ax = plt.subplots(figsize=(8, 4))
for name, (regret, _) in results.items():
    average = regret.cumsum(-1).mean(0)
    error = regret.cumsum(-1).std(0) / loops**0.5
    rounds = torch.arange(1, horizon + 1)
    ax.plot(rounds, average, color=colours[name], label=name)
    low, high = average - 2 * error, average + 2 * error
    ax.fill_between(rounds, low, high, color=colours[name], alpha=0.2, linewidth=0)
ax.axvline(jump + 0.5, color=GREY, linestyle=":", label="the jump")
ax.set_xlabel("round")
ax.set_ylabel("cumulative regret")
ax.legend()
plt.show()

# %% [markdown]
# All strategies meet the same worlds and the same noise, so differences are paired and the
# variation between worlds cancels.

# %%
baseline = results["GP-UCB (never forgets)"][0]
for name, (regret, _) in results.items():
    for label, part in (("before", slice(0, jump)), ("after", slice(jump, None))):
        difference = (regret - baseline)[:, part].sum(-1)
        mean, error = difference.mean(), difference.std() / loops**0.5
        print(f"{name:36s} {label:6s} the jump: {mean:+6.1f} ± {error:.1f} against GP-UCB")

# %% [markdown]
# Constant forgetting costs 1.8 ± 1.2 before the jump, and saves 22.4 ± 3.5 after it. Forgetting at
# a trigger costs nothing before, and saves as much: 23.3 ± 3.4.
#
# ## Every loop resets on its own
#
# An event trigger forgets where an observation contradicts *this* loop's prediction. In a batch
# that is a mask, not a branch: the loops that reset retain their newest point; the others
# continue.

# %%
_, resets = results["ET-GP-UCB (forgets at a trigger)"]
fig, ax = plt.subplots(figsize=(8, 2.5))
trial, round_ = resets.nonzero(as_tuple=True)
ax.scatter(round_ + 1, trial, s=8, color=VERMILION)
ax.axvline(jump + 0.5, color=GREY, linestyle=":")
ax.set_xlim(0, horizon + 1)
ax.set_xlabel("round")
ax.set_ylabel("loop")
ax.set_title("Resets of ET-GP-UCB")
plt.show()
late = resets[:, jump:].any(-1)
print(
    f"{int(late.sum())} of {loops} loops detected the jump; "
    f"{int(resets[:, :jump].sum())} false triggers before it"
)

# %% [markdown]
# ## The gain of a batch
#
# One round of one loop is so little work that most of the time goes into starting operations. A
# batch starts each operation once for all loops.

# %%
strategy = strategies["TV-GP-UCB (forgets constantly)"]
several = [1, 4] if SMOKE_TEST else [1, 8, 64]
cost = []
for number in several:
    state = strategy.init(Box(worlds.spatial_bounds), batch_shape=(number,))
    for t in range(4 if SMOKE_TEST else 20):
        suggestion = strategy.ask(state)
        if t == 2:
            start, first = time.perf_counter(), t
        state, _ = strategy.tell(state, suggestion, suggestion.X.sum(-1))
    cost.append((time.perf_counter() - start) / (t - first + 1) / number)
    print(f"{number:3d} loops: {1e3 * cost[-1]:6.2f} ms per loop and round")

# %% [markdown]
# On a GPU only the device changes: tensors made on it stay on it, and no round waits for the host
# to look at a per-loop value. Memory limits the number of loops: each holds its observations and a
# matrix with a row and a column for each retained observation.
#
# Two hints:
#
# - `strategy.init(..., dtype=torch.float32)` halves the memory; choices may differ, statistics do
#   not.
# - On finite domains (`Grid`) another engine builds no kernel matrix per loop and plays tens of
#   thousands of loops at once: `botorch_tv.simulation.run_study`.
