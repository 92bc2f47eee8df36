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
# # A machine over a week
#
# An extruder runs day and night. Every three hours an operator sets its temperature, its feed and
# the number of fans, and measures the quality of the product. The best setting on Sunday differs
# from the best setting on Monday: the heater ages, nights are cold, and a new batch of pellets
# arrives on Thursday. Once, a nozzle clogs.
#
# No rate of change is given. This notebook keeps the machine in tune by a `Loop` that receives the
# ranges of the parameters, in the machine's own units, and the wall-clock time.

# %%
import math
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.dates import DateFormatter, DayLocator

from botorch_tv import Float, Integer, Loop, adaptive_gp_ucb
from botorch_tv.strategies import Bank

SMOKE_TEST = "SMOKE_TEST" in os.environ  # a small size, to check that everything runs
MONDAY = datetime(2026, 3, 2, 6, tzinfo=UTC)
EVERY = timedelta(hours=3)
TIMES = [MONDAY + number * EVERY for number in range(16 if SMOKE_TEST else 56)]
SUNDAY = TIMES[-1] + EVERY
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
# ## The machine, hidden from the loop
#
# Quality is at most 95. The best temperature rises by a degree in four hours, and swings by eight
# degrees between day and night. The new batch needs three times the feed. On Tuesday night the
# nozzle clogs at any feed above 7 kg/h, and nothing can be measured.


# %%
def best_setting(when):
    """The best setting at a time."""
    hour = (when - MONDAY) / timedelta(hours=1)
    return {
        "temperature": 175 + 0.25 * hour + 8 * math.sin(2 * math.pi * (hour - 3) / 24),
        "feed": 10.0 if hour < 82 else 30.0,
        "fans": 3,
    }


def quality(setting, when):
    """The quality without measurement error."""
    best = best_setting(when)
    off = ((setting["temperature"] - best["temperature"]) / 30) ** 2
    off += (math.log(setting["feed"] / best["feed"]) / 1.5) ** 2
    return 55 + 40 * math.exp(-off / 2) - 6 * abs(setting["fans"] - best["fans"])


def clogs(setting, when):
    """Whether the nozzle clogs."""
    return 36 <= (when - MONDAY) / timedelta(hours=1) <= 45 and setting["feed"] > 7


# %% [markdown]
# ## The week
#
# Parameters have names, units and kinds: a range, a range on a logarithmic scale, an integer.
# `ask` and `tell` use these units. A measurement has an error with a standard deviation of one
# point, which the loop has to estimate.

# %%
SETTINGS = {"temperature": (150, 250), "feed": Float(1, 100, log=True), "fans": Integer(1, 4)}
ERRORS = np.random.default_rng(0).normal(0, 1, size=len(TIMES))


def work(loop, times, errors=ERRORS):
    """Ask, set, measure and tell, at every time."""
    for when in times:
        setting = loop.ask(now=when).point
        if clogs(setting, when):
            loop.tell(ok=False)
        else:
            loop.tell(quality(setting, when) + errors[TIMES.index(when)])


loop = Loop(SETTINGS)
work(loop, TIMES[:8])
print("Tuesday, 6:00:", loop.ask(now=TIMES[8]).point)

# %% [markdown]
# The computer is switched off while that suggestion is open. The saved loop resumes, the open
# suggestion included.

# %%
with TemporaryDirectory() as folder:
    loop.save(Path(folder) / "extruder.json")
    loop = Loop.load(Path(folder) / "extruder.json")
(suggestion,) = loop.open
loop.tell(quality(suggestion.point, TIMES[8]) + ERRORS[8])
work(loop, TIMES[9:])

# %% [markdown]
# ## The measurements
#
# `loop.table()` holds all measurements. Around the clog:

# %%
table = loop.table()
columns = ["temperature", "feed", "fans", "y", "ok", "mean", "sd"]
table.set_index("time").loc[TIMES[10] : TIMES[15], columns].round(1)

# %% [markdown]
# A failure lowers the probability of success near it. The loop avoids points less than half as
# likely to succeed as the likeliest point.
#
# The picture of the week shows the measurements and their predictions above; below, the chosen
# settings and the posterior of each parameter now. Dotted green lines show the best setting
# according to the posterior.

# %%
loop.plot(now=SUNDAY, ylabel="quality")

# %% [markdown]
# And as text:

# %%
print(loop.describe(now=SUNDAY))

# %% [markdown]
# The report explains the week by drift. The new batch on Thursday at 16:00 was a jump, but eight
# measurements a day for three parameters do not distinguish a jump from fast drift. The loop can
# follow either.
#
# ## Did it follow?
#
# Here are the best settings, which the loop does not see, and its choices.

# %%
hours = [MONDAY + timedelta(hours=hour) for hour in range(3 * len(TIMES))]
truth = [best_setting(when) for when in hours]
figure, panels = plt.subplots(2, 1, figsize=(8, 4.5), sharex=True)
for axes, (name, unit) in zip(panels, {"temperature": "°C", "feed": "kg/h"}.items()):
    axes.plot(hours, [row[name] for row in truth], color=GREEN, label="best setting")
    good, bad = table[table["ok"]], table[~table["ok"]]
    axes.plot(good["time"], good[name], "ko", markersize=4, label="chosen by the loop")
    axes.plot(bad["time"], bad[name], "x", color=RED, label="failed")
    axes.set_ylabel(f"{name}, {unit}")
panels[1].set_yscale("log")
panels[1].xaxis.set_major_locator(DayLocator())
panels[1].xaxis.set_major_formatter(DateFormatter("%a"))
panels[0].legend(ncols=3, loc="lower right", bbox_to_anchor=(1, 1))
plt.show()

# %% [markdown]
# The temperature follows the heater, not the nights: eight measurements a day for three parameters
# do not resolve them. Where the nozzle clogged the loop tries settings far away, and returns.
# After the new batch arrives, it needs about a day to find a suitable feed.
#
# ## What it was worth
#
# Two others for comparison. The first tunes the machine on Monday and then uses the best setting
# measured. The second is the same loop without forgetting: its bank holds no process that drifts
# or jumps. One week is one draw, so the picture shows six weeks with different measurement errors.

# %%
WEEKS = 2 if SMOKE_TEST else 6
TIMES = TIMES[:10] if SMOKE_TEST else TIMES
LASTING = Bank(rates=(0.0,), hazards=(0.0,))
lost = {"adaptive": [], "never forgets": [], "Monday's best": []}
for week in range(WEEKS):
    errors = np.random.default_rng(week).normal(0, 1, size=len(TIMES))
    loops = Loop(SETTINGS), Loop(adaptive_gp_ucb(bank=LASTING), SETTINGS)
    chosen = []
    for loop in loops:
        work(loop, TIMES, errors)
        chosen.append(loop.table()[list(SETTINGS)].to_dict("records"))
    monday = loops[0].table().iloc[:8].dropna(subset="y").sort_values("y")
    best = monday[list(SETTINGS)].to_dict("records")[-1]
    chosen.append(chosen[0][:8] + [best] * (len(TIMES) - 8))
    for name, settings in zip(lost, chosen):
        lost[name].append([95 - quality(setting, when) for setting, when in zip(settings, TIMES)])


def mean_and_error(weeks):
    """Mean over weeks and its standard error."""
    return np.mean(weeks, axis=0), np.std(weeks, axis=0, ddof=1) / math.sqrt(WEEKS)


figure, axes = plt.subplots(figsize=(8, 3))
after = {
    name: np.mean(weeks, axis=1, where=np.arange(len(TIMES)) >= 8) for name, weeks in lost.items()
}
for (name, weeks), colour in zip(lost.items(), (BLUE, ORANGE, GREY)):
    mean, error = mean_and_error(np.cumsum(weeks, axis=1))
    axes.step(TIMES, mean, where="post", color=colour, label=name)
    axes.fill_between(TIMES, mean - error, mean + error, step="post", color=colour, alpha=0.2)
    more, doubt = mean_and_error(after[name] - after["adaptive"])
    each, spread = mean_and_error(after[name])
    print(
        f"{name:14} loses {each:5.1f} ± {spread:.1f} points a measurement from Tuesday on;"
        f" {more:5.1f} ± {doubt:.1f} more than adaptive, week by week"
    )
axes.set(ylabel="quality lost so far, points")
axes.set_title(f"Mean of {WEEKS} weeks, bands ± 1 standard error", fontsize=10)
axes.xaxis.set_major_locator(DayLocator())
axes.xaxis.set_major_formatter(DateFormatter("%a"))
axes.legend(loc="upper left")
plt.show()

# %% [markdown]
# From Tuesday on Monday's best setting loses 25.8 ± 2.1 points a measurement, and the adaptive
# loop 7.4 ± 0.5. The loop that never forgets loses a little less until the batch arrives, because
# little has changed. Then its old measurements mislead it, and it loses 12.4 ± 0.7 over the week:
# 5.0 ± 1.1 more in the same weeks.
#
# [A regret study](a_regret_study.ipynb) shows how many trials a comparison needs.
#
# ## The week in one picture
#
# Beside the settings of the first week, the quality of each day, without measurement error: of the
# loop, and of the same loop without forgetting.

# %%
DAYS = [slice(first, first + 8) for first in range(0, len(TIMES), 8)]
figure = plt.figure(figsize=(10, 4.2), dpi=110)
panels = figure.subplot_mosaic([["temperature", "worth"], ["feed", "worth"]], width_ratios=(5, 4))
for name, unit in {"temperature": "°C", "feed": "kg/h"}.items():
    axes = panels[name]
    axes.plot(hours, [row[name] for row in truth], color=GREEN, label="best setting, unseen")
    axes.plot(good["time"], good[name], "ko", markersize=4, label="chosen by the loop")
    axes.plot(bad["time"], bad[name], "x", color=RED, label="failed")
    axes.set_title(f"{name}, {unit}", fontsize=10, loc="left")
panels["temperature"].legend(loc="lower right", fontsize=8)
for name in ("temperature", "worth"):
    panels[name].sharex(panels["feed"])
panels["temperature"].tick_params(labelbottom=False)
panels["feed"].set_yscale("log")
axes = panels["worth"]
for name, colour, style in (("adaptive", BLUE, "o-"), ("never forgets", ORANGE, "s--")):
    days = 95 - np.stack([np.mean(np.array(lost[name])[:, day], axis=1) for day in DAYS], axis=1)
    mean, error = mean_and_error(days)
    noon = [TIMES[day][len(TIMES[day]) // 2] for day in DAYS]
    label = {"adaptive": "the loop"}.get(name, "without forgetting")
    axes.errorbar(noon, mean, error, fmt=style, color=colour, capsize=3, label=label)
axes.axvline(MONDAY + timedelta(hours=82), color=GREY, linestyle="dotted", label="a new batch")
axes.set_ylim(60, 95)
axes.set_title(f"quality of a day, mean ± s.e. of {WEEKS} weeks", fontsize=10, loc="left")
axes.legend(loc="lower left", fontsize=9)
for axes in panels.values():
    axes.xaxis.set_major_locator(DayLocator())
    axes.xaxis.set_major_formatter(DateFormatter("%a"))
plt.show()
