# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
# ---

# %% [markdown]
# # Asking an expert: the value of side queries
#
# An objective that moves fast makes old measurements worthless, and a bandit that can only forget
# ends up with little data. Mauduit, Berthier and Simonetto (*No-Regret Gaussian Process
# Optimization of Time-Varying Functions*, [M]) change the rules: between rounds the bandit may ask
# an **expert** to measure a few *old* points again, as they are now. The expert may be a
# laboratory, a slow simulation, or a colleague with a van full of instruments. These **side
# queries** cost money or time, but no regret.
#
# Which points to ask about, how many, how often, and with what gain? And if the expert is late,
# answers half of the questions, or is on holiday?

# %%
import os
import warnings
from importlib.metadata import version
from itertools import islice

import matplotlib.pyplot as plt
import numpy as np
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_tv.acquisition import Logarithmic
from botorch_tv.loop import Loop
from botorch_tv.simulation import SineWorld, run_study
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import (
    Grid,
    gp_ucb,
    random_search,
    sparq_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    w_gp_ucb,
    w_sparq_gp_ucb,
)
from botorch_tv.theory import (
    necessary_side_queries,
    sufficient_side_queries,
    total_side_queries,
    window_starts,
)

SMOKE_TEST = "SMOKE_TEST" in os.environ  # a small size, to check that everything runs
torch.set_default_dtype(torch.float64)
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#555555"
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
# ## A world that is never the same
#
# The sine world of [M] §4: twenty bumps along a line from -50 to 50, whose heights oscillate with
# a period of 21 rounds, each a little ahead of its neighbour. The objective is the same in all
# trials; only the noise differs. The strategies are given the kernel and the noise, but not the
# motion.

# %%
ROUNDS = 16 if SMOKE_TEST else 200
NOISE = 0.01
kernel = ScaleKernel(RBFKernel())
kernel.base_kernel.lengthscale = torch.tensor(3.0)
kernel.outputscale = torch.tensor(0.5)
line = Grid.regular(points=201, dim=1, bounds=[(-50.0, 50.0)])
world = SineWorld(line, kernel=kernel, noise=NOISE)

stream = Stream(0, "a look", 0, 1, dtype=torch.float64, device=line.device)
truth = torch.stack([values[0].clone() for values in islice(world.rounds(stream), 100)])

figure, axes = plt.subplots(figsize=(8, 3))
levels = np.linspace(-1.5, 1.5, 7)
shown = axes.contourf(np.arange(1, 101), line.X[:, 0], truth.T, levels, cmap="Greys")
axes.plot(np.arange(1, 101), line.X[truth.argmax(-1), 0], ".", color=RED, label="best place")
axes.set(xlabel="round", ylabel="place x", title="A wave that runs along the line")
axes.legend(loc="upper right", frameon=True, fontsize=8)
figure.colorbar(shown, label="f")
plt.show()

# %% [markdown]
# ## Bandits that only forget
#
# First without an expert. Every way of forgetting plays with several parameters, and the best in
# hindsight counts. All players in this notebook explore by the same width, $\sqrt{0.8 \ln 4t}$;
# the presets with an expert have a wider default, from their theory.

# %%
TRIALS = 2 if SMOKE_TEST else 24
parts = {"kernel": kernel, "noise": NOISE, "width": Logarithmic(c1=0.8, c2=4.0)}
forgetting = {
    "random": random_search(kernel=kernel, noise=NOISE),
    "never forgets": gp_ucb(**parts),
    **{f"window of {n}": sw_gp_ucb(window=n, **parts) for n in (1, 2, 3, 5)},
    **{f"weights, γ = {g}": w_gp_ucb(gamma=g, **parts) for g in (0.1, 0.3, 0.5)},
    **{f"decay, ε = {e}": tv_gp_ucb(epsilon=e, **parts) for e in (0.1, 0.2, 0.5)},
}
without = run_study(world, forgetting, trials=TRIALS, horizon=ROUNDS, progress=False)
table = without.summary()[["total_regret", "standard_error", "regret_per_round"]]
table.round(2)

# %% [markdown]
# Forgetting decides: regret is between 80 and 156 for parameters that all look reasonable, and 200
# without forgetting. The winners forget nearly everything: they retain two measurements, or weigh
# them ten times less with every round. The best of them is the reference below, although nobody
# could choose it in advance.
#
# ## One loop by hand
#
# A strategy with an expert has two more methods. After `tell`, **`consult`** returns the question;
# **`absorb`** takes the answers; then comes the next `ask`. `sparq_gp_ucb` asks in every round,
# and its model uses the newest answers only.
#
# `c_Q` sets the number of points: at most $\lceil c_Q \ln^d (t+1) \rceil$ after round $t$, drawn
# from the points measured before. `steps="exact"` draws them exactly instead of by a Markov chain,
# which for smooth kernels is also faster on a CPU.

# %%
generator = torch.Generator().manual_seed(1)


def measure(t, arms):
    """What is measured in round t at some arms."""
    return truth[t - 1, arms] + NOISE**0.5 * torch.randn(arms.shape, generator=generator)


strategy = sparq_gp_ucb(c_Q=2.0, steps="exact", **parts)
state = strategy.init(line)
NOW = 12 if SMOKE_TEST else 60
visited = []
for t in range(1, NOW + 1):
    suggestion = strategy.ask(state)
    state, info = strategy.tell(state, suggestion, measure(t, suggestion.index))
    visited.append(int(suggestion.index))
    question = strategy.consult(state, generator=generator)  # measure these points again
    if t < NOW:
        state = strategy.absorb(state, question, measure(t, question.choice))
past = torch.tensor(sorted(set(visited)))
print(f"round {NOW}: {len(visited)} measurements at {len(past)} places so far")
print(f"asks the expert about {len(question.choice)} of them: x =", question.X.flatten().tolist())

# %% [markdown]
# `question` holds the points (`X`), their numbers on the grid (`choice`) and their `time`; its
# `mask` matters in a batch, where one trial may ask about fewer points than another.
#
# ### Which points?
#
# A **k-determinantal point process** draws subsets with probability proportional to the
# determinant of their covariance: informative points without repetition. Random points from the
# same past come in clumps, since a bandit returns to good places. We ask the expert one question
# of each kind and compare the posteriors.


# %%
def ask_about(arms):
    """The state once the expert has been asked about other points than the strategy's."""
    other = question._replace(choice=arms, X=line.X[arms])
    return strategy.absorb(state, other, measure(NOW, arms))


def predict(after):
    """Mean and standard deviation of f at all arms."""
    posterior = strategy.posterior(after, line.X)
    return posterior.mean.flatten(), posterior.variance.flatten().clamp_min(0).sqrt()


some = past[torch.randperm(len(past), generator=generator)[: len(question.choice)]]
figure, panels = plt.subplots(1, 2, figsize=(10, 3.4), sharey=True)
x = line.X.flatten()
for axes, arms, colour, title in (
    (panels[0], question.choice, BLUE, "asked about a k-DPP subset"),
    (panels[1], some, ORANGE, "asked about a random subset"),
):
    mean, sd = predict(ask_about(arms))
    axes.fill_between(
        x, mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.2, linewidth=0, label="± 2 sd"
    )
    axes.plot(x, mean, color=colour, label="mean")
    axes.plot(x, truth[NOW - 1], color="black", linewidth=1, label=f"f in round {NOW}")
    axes.plot(x[past], torch.full((len(past),), -2.6), "|", color=GREY, label="measured before")
    axes.plot(x[arms], torch.full((len(arms),), -2.6), "o", color=colour, label="asked about")
    axes.set(xlabel="place x", title=f"{title}: mean sd {sd[past].mean():.2f}")
panels[0].legend(fontsize=8, ncols=3, loc="upper center")
panels[0].set(ylabel="f", ylim=(-2.9, 3.4))
plt.show()

# %% [markdown]
# One draw is not enough. The posterior standard deviation at the places measured before, on
# average over many draws of either kind:

# %%
draws = 4 if SMOKE_TEST else 100
sds = {"k-DPP": [], "random": []}
for _ in range(draws):
    chosen = strategy.consult(state, generator=generator).choice
    at_random = past[torch.randperm(len(past), generator=generator)[: len(chosen)]]
    for kind, arms in (("k-DPP", chosen), ("random", at_random)):
        sds[kind].append(float(predict(ask_about(arms))[1][past].mean()))
for kind, values in sds.items():
    print(f"{kind:6}: mean sd {np.mean(values):.3f} ± {np.std(values, ddof=1) / draws**0.5:.3f}")
print(f"before any measurement: {kernel.outputscale.item() ** 0.5:.3f}")

# %% [markdown]
# The mean standard deviation after the k-DPP's questions is 0.208 ± 0.002, after random questions
# 0.264 ± 0.004, for the same nine questions. In the picture, random questions repeat themselves
# and miss the middle of the measured places. Neither asks about the right of the line, where
# nothing was measured: exploration is the bandit's task.
#
# ### An expert who answers in part, late, or not at all
#
# **In part**: `ok` marks the answered points. `state.expert.unanswered` counts the others.

# %%
answers = measure(NOW, question.choice)
answered = torch.arange(len(answers)) % 2 == 0  # every other point
in_part = strategy.absorb(state, question, answers, ok=answered)
in_full = strategy.absorb(state, question, answers)
for name, after in (("all points", in_full), ("every other", in_part)):
    unanswered = int(after.expert.unanswered)
    sd = float(predict(after)[1][past].mean())
    print(f"answers to {name:11}: {unanswered} without answer, mean sd {sd:.2f}")

# %% [markdown]
# A state is a value: both branches came from the same state, which has not changed.
#
# **Not at all**: the next `ask` raises an `ExpertWarning`, and decides with the data there are:
# the answers of the round before and the measurements since.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    suggestion = strategy.ask(state)
for warning in caught:
    print(warning.message)
state, info = strategy.tell(state, suggestion, measure(NOW + 1, suggestion.index))

# %% [markdown]
# **Late**: answers to the question of round 60 arrive one round later. They are about
# `question.time`, so the measurements since then are retained with them. Answers that arrive after
# the answers to a newer question are refused.

# %%
state = strategy.absorb(state, question, answers)
print(f"answers about time {float(state.expert.time):g}, in round {float(state.time):g}")
newer = strategy.consult(state, generator=generator)
state = strategy.absorb(state, newer, measure(NOW + 1, newer.choice))
try:
    strategy.absorb(state, question, answers)
except InputDataError as error:
    print(error)

# %% [markdown]
# ### The same with a `Loop`
#
# At a real machine a `Loop` holds the state, numbers the questions and writes everything to a
# file. `W-SparQ-GP-UCB` asks at the start of every window only, so `consult` returns `None` in
# between.

# %%
frugal = w_sparq_gp_ucb(alpha=1.0, alpha_tilde=0.25, c_Q=1.0, steps="exact", **parts)
loop = Loop(frugal, line, seed=1)
for t in range(1, 9):
    suggestion = loop.ask()
    loop.tell(float(measure(t, line.index_of(suggestion.X))))
    asked = loop.consult()
    if asked is None:
        print(f"round {t}: no question")
        continue
    unanswered = loop.absorb(asked, measure(t, line.index_of(asked.X)))
    print(f"round {t}: {asked}, {unanswered} without answer")

# %% [markdown]
# ## The gain from side queries
#
# In a study the expert answers with its own noise, and side queries are counted apart from regret.
# Two parameters set the expense: `c_Q`, the size of a question, and the windows, its frequency.
# Windows lengthen as $t^{\tilde\alpha/\alpha}$.

# %%
SCALES = (1.0,) if SMOKE_TEST else (0.5, 1.0, 2.0, 4.0)
TILDES = (0.25,) if SMOKE_TEST else (0.1, 0.25, 0.3)
families = {
    "SparQ, every round": {
        f"c_Q = {c:g}": sparq_gp_ucb(c_Q=c, steps="exact", **parts) for c in SCALES
    },
    "W-SparQ, α = 2, α~ = 1/4": {
        f"c_Q = {c:g}": w_sparq_gp_ucb(alpha=2.0, c_Q=c, steps="exact", **parts)
        for c in SCALES
        if c >= 1
    },
    "W-SparQ, α = 1, c_Q = 2": {
        f"α~ = {a:g}": w_sparq_gp_ucb(alpha=1.0, alpha_tilde=a, c_Q=2.0, steps="exact", **parts)
        for a in TILDES
    },
}
asking = {
    f"{family}: {setting}": strategy
    for family, members in families.items()
    for setting, strategy in members.items()
}
with_expert = run_study(world, asking, trials=TRIALS, horizon=ROUNDS, progress=False)
spent = with_expert.side_queries.sum("round").mean("trial").to_series()
summary = with_expert.summary()[["total_regret", "standard_error"]].assign(side_queries=spent)
summary["asked_per_round"] = spent / ROUNDS
summary.round(1)


# %%
def symbols(label):
    """A label with its letters as in formulas."""
    return label.replace("α~", r"$\tilde\alpha$").replace("α", r"$\alpha$").replace("c_Q", "$c_Q$")


best_free = table.index[0]
looks = dict(zip(families, ((BLUE, "o"), (ORANGE, "s"), (GREEN, "D"))))
figure, axes = plt.subplots(figsize=(8, 4.2))
for (family, members), (colour, marker) in zip(families.items(), looks.values()):
    rows = summary.loc[[f"{family}: {setting}" for setting in members]]
    axes.errorbar(
        rows["side_queries"],
        rows["total_regret"],
        rows["standard_error"],
        color=colour,
        marker=marker,
        capsize=2,
        label=symbols(family),
    )
    for setting, (_, row) in zip(members, rows.iterrows()):
        axes.annotate(
            symbols(setting),
            (row["side_queries"], row["total_regret"]),
            xytext=(-52, -4)
            if setting == "c_Q = 0.5"
            else (6, 6 if setting.startswith("α~") else -13),
            textcoords="offset points",
            color=colour,
            fontsize=8,
        )
for label, line_style in ((best_free, "dashed"), ("decay, ε = 0.1", "dotted")):
    axes.axhline(table.loc[label, "total_regret"], color=GREY, linestyle=line_style, linewidth=1)
    axes.annotate(
        f"no expert: {label}",
        (0.99, table.loc[label, "total_regret"]),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        color=GREY,
        fontsize=8,
    )
axes.set(xscale="log", xlim=(400, 5200), ylim=(0, None), xlabel=f"side queries in {ROUNDS} rounds")
axes.set_xticks([500, 1000, 2000, 4000], ["500", "1000", "2000", "4000"], minor=False)
axes.tick_params(which="minor", labelbottom=False)
axes.set_ylabel("total regret")
axes.set_title("Frequent questions beat long questions, from five a round on", fontsize=11)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# Five questions a round (`c_Q = 1`) reduce regret from 80, the best forgetter's, to 46; four times
# as many reduce it to 34.5. W-SparQ with α = 2 asks in every other round, and pays for the rounds
# in between: for about as many questions in all, SparQ has 46 against 55 at about 950 questions
# (`c_Q = 1` against 2) and 36 against 48 at about 1800 (2 against 4). With fewer than three
# questions a round the order is reversed: W-SparQ, which asks five in every other round, pays 64,
# and SparQ, which asks three in every round, 83. Longer windows (α = 1, α~ above 0.1) save few
# questions and cost much. Standard errors are 1 to 2, so these differences are significant.
#
# Asking does not always pay: with few questions, or long windows, an expert is worth less than the
# right way of forgetting.
#
# ### The chosen places
#
# The places chosen in one trial, on the wave:

# %%
shown_players = (
    (without, best_free, f"no expert: {best_free}"),
    (without, "decay, ε = 0.1", "no expert: decay, ε = 0.1"),
    (with_expert, "SparQ, every round: c_Q = 1", "SparQ, c_Q = 1"),
)
figure, panels = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
last = min(100, ROUNDS)
for axes, (study, label, title) in zip(panels, shown_players):
    rounds = np.arange(1, last + 1)
    axes.contourf(rounds, line.X[:, 0], truth[:last].T, levels, cmap="Greys", vmin=-1.5, vmax=4)
    arms = study.data["index"].sel(strategy=label, trial=0).values[:last]
    axes.plot(rounds, line.X[arms, 0], ".", color=RED, markersize=5)
    axes.set(xlabel="round", title=symbols(title))
panels[0].set_ylabel("place x")
plt.show()

# %% [markdown]
# All three measure near a crest, follow it to one end of the line, and jump back for the next. A
# memory of two rounds is enough to follow a crest, so this world favours fast forgetting. A slower
# decay stays too long at crests that have gone. SparQ's expert measures the whole track again, and
# as the track grows it catches the next crest a little earlier. No strategy needs the other half
# of the line.
#
# ### Is it worth the price?
#
# That depends on the price of a side query, in units of regret. The picture adds both costs and
# shows the cheapest strategy at each price.

# %%
prices = np.geomspace(1e-3, 1.0, 400)
cost = {
    label: row["total_regret"] + prices * row["side_queries"] for label, row in summary.iterrows()
}
cheapest = np.array(list(cost))[np.argmin(list(cost.values()), axis=0)]
figure, axes = plt.subplots(figsize=(8, 3.8))
for label, values in cost.items():
    colour = next(looks[family][0] for family in families if label.startswith(family))
    axes.plot(prices, values, color=colour, linewidth=0.7, alpha=0.4)
    wins = cheapest == label
    if wins.any():
        low, high = prices[wins][[0, -1]]
        axes.plot(prices[wins], values[wins], color=colour, linewidth=3)
        print(f"cheapest to ask from a price of {low:5.3f} to {high:5.3f}: {label}")
for label, line_style in ((best_free, "dashed"), ("decay, ε = 0.1", "dotted")):
    free = table.loc[label, "total_regret"]
    asking_pays = np.min(list(cost.values()), axis=0) < free
    until = f"{prices[asking_pays][-1]:.3f}" if asking_pays.any() else "nothing"
    print(f"asking pays up to a price of {until}, compared with {label}")
    axes.axhline(free, color=GREY, linestyle=line_style, linewidth=1)
    axes.annotate(
        f"no expert: {label}",
        (0.0011, free),
        va="bottom",
        color=GREY,
        fontsize=8,
    )
axes.set(xscale="log", ylim=(0, 170), xlabel="price of a side query, in units of regret")
axes.set_ylabel("regret + price × side queries")
axes.set_title(
    "The higher the price, the fewer questions (thick: the cheapest strategy)", fontsize=11
)
axes.xaxis.set_major_formatter("{x:g}")
for family, (colour, _) in looks.items():
    axes.plot([], [], color=colour, linewidth=3, label=symbols(family))
axes.legend(fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# Asking pays up to a price of 0.034 per question against the best way of forgetting, which nobody
# could choose in advance, and up to 0.171 against a decay of 0.1, a reasonable choice. A round of
# the best forgetter costs 0.40 of regret. SparQ is best where questions are cheap, W-SparQ where
# they are expensive and no good way of forgetting is available.
#
# ## The window schedule
#
# W-SparQ asks at $t_1 = 1$ and $t_{j+1} = t_j + \lfloor t_j^{\tilde\alpha/\alpha} \rfloor + 1$.
# The reason: an observation of age $a$ is assumed to have $1 + a^\alpha$ times the noise, and a
# window ends before this exceeds $1 + t^{\tilde\alpha}$. So a fast world, of large $\alpha$, has
# short windows.

# %%
cases = [(2.0, 0.25), (1.0, 0.1), (1.0, 0.25), (1.0, 0.3), (0.5, 0.25)]
figure, axes = plt.subplots(figsize=(8, 2.6))
for place, (alpha, tilde) in enumerate(cases):
    starts = window_starts(200, alpha, tilde)
    colour = GREEN if alpha == 1 else ORANGE if alpha == 2 else GREY
    axes.eventplot([starts], lineoffsets=place, linelengths=0.7, linewidths=1, colors=colour)
    axes.annotate(f"{len(starts)} times", (203, place), va="center", fontsize=9, color=colour)
named = [symbols(f"α = {alpha:g}, α~ = {tilde:g}") for alpha, tilde in cases]
axes.set_yticks(range(len(cases)), named)
axes.invert_yaxis()
axes.set(xlim=(0, 218), xlabel="round in which the expert is asked")
axes.set_title(symbols("The larger α~/α, the longer the windows"))
plt.show()

# %% [markdown]
# ## How many side queries does theory need?
#
# For α > 1 and the worst functions, regret is linear with no more side queries than the order
# $T^{\alpha/(\alpha+1)}$ ([M] Theorem 5.3), for any strategy. With $T^{1-\tilde\alpha/\alpha}
# \ln^d T$ of them W-SparQ has sublinear regret (Theorem 3.10). These are orders: their slopes have
# a meaning, their levels have none. The strategies' own counts have no open constant.

# %%
horizons = np.unique(np.geomspace(10, 10_000, 40).astype(int))
ALPHA, TILDE, SCALE = 2.0, 0.25, 2.0
T = torch.as_tensor(horizons, dtype=torch.float64)
every = [total_side_queries(range(1, t + 1), 1, constant=SCALE) for t in horizons.tolist()]
windows = [
    total_side_queries(window_starts(t, ALPHA, TILDE), 1, constant=SCALE) for t in horizons.tolist()
]
figure, axes = plt.subplots(figsize=(8, 4))
axes.plot(horizons, every, color=BLUE, label=symbols("SparQ, c_Q = 2: at most"))
label = symbols("W-SparQ, α = 2, α~ = 1/4, c_Q = 2: at most")
axes.plot(horizons, windows, color=ORANGE, label=label)
enough, needed = sufficient_side_queries(T, ALPHA, TILDE, 1), necessary_side_queries(T, ALPHA)
axes.plot(T, enough, color="black", linestyle="dashed", label=r"enough, order $T^{7/8} \ln T$")
axes.plot(T, needed, color="black", linestyle="dotted", label="not enough, order $T^{2/3}$")
for label, colour in (
    ("SparQ, every round: c_Q = 2", BLUE),
    ("W-SparQ, α = 2, α~ = 1/4: c_Q = 2", ORANGE),
):
    if label in summary.index:
        axes.plot(ROUNDS, summary.loc[label, "side_queries"], "o", color=colour)
axes.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="side queries in T rounds")
axes.set_title("W-SparQ asks in the order that is enough (dots: the study above)", fontsize=11)
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# SparQ asks in the order of $T \ln T$, W-SparQ in an order that is proved to be enough. Nothing is
# proved between the dashed and the dotted slope. And 200 rounds do not test an order; the pictures
# above show the value of an expert within 200 rounds.
#
# ## In short
#
# | you have | use |
# |---|---|
# | an expert who is cheap next to regret | `sparq_gp_ucb`: asked every round |
# | few questions to spend | `w_sparq_gp_ucb`: asked at window starts, for a small `c_Q` |
# | no expert, or an expensive expert | a strategy that forgets, with a carefully chosen rate |
#
# The round is `ask`, `tell`, `consult`, `absorb`, on a `Grid` or a `Box` (without context), for
# one loop or a batch.

# %%
for package in ("botorch_tv", "botorch", "gpytorch", "torch"):
    print(package, version(package))
