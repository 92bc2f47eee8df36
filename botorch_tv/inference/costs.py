"""What every choice of a representation rests on: thresholds, and what they were measured on."""

from __future__ import annotations

# Which representation is taken.

FEW_ARMS = 256
"""Up to as many, features of any rank pay where noise ages: from about as many rounds on as there
are arms, a round costs arms³ instead of rounds³ (for WGP-UCB 9 times less at 25 arms and 500
rounds). Not in float32, where I + Φᵀ N⁻¹ Φ is the worse conditioned of the two."""

RANK_SHARE = 0.25
"""Features pay up to this rank, as a share of the arms.

A term costs r memory-bound numbers and a product of M r multiplications in features, M memory-bound
numbers over the arms; a product does at least four multiplications while one number is fetched.
"""

DENSE_SHARE = 1 / 12
"""Arms played, as a share of all, from which on a sum of their rows of a covariance is a product
with all of it: a number fetched for one trial costs about ten multiplications of such a product."""

FEW_FEATURES = 128
"""Up to as many functions make up a kernel on a box unless somebody asks: a round in them costs
what a regression on as many observations does, from the first round on."""

MOST_FEATURES = 1024
"""Up to as many do where somebody does."""

AUTO_TOLERANCE = 1e-8
"""Error that they may make then, by which engines may differ everywhere."""

KERNEL_SHARE = 1 / 100
"""Largest error of a kernel k that is made up by functions, as a share of the error of means and
standard deviations that is allowed, times the noise's standard deviation, all in the unit of k.

Measured against regression at 100 to 3,000 points, spread or crowded, squared exponential kernels
of lengthscale .2 of a side (d = 1, 2) and .4 (d = 3) and noise 1e-2 k and 1e-4 k: means are off by
at most 15 errors of the kernel over that deviation, standard deviations by 4."""

NOISE_SHARE = 1 / 16
"""Smallest noise variance of an observation, as a share of the strategy's, that this leaves room
for."""

LEAST_SHARE = 1e-13
"""Smaller errors of a kernel are rounding."""

FAMILIAR = 256
"""Observations that a search of a box begins at: the newest where a round is to take the same time
always, those of the best means elsewhere. Raw samples find the places of others."""

SMALL_RANK = 64
"""Up to this many features a step on all of them is cheaper than one on the arms played."""

LEAST_NOISE = 1 / 64
"""Noise variance, as a share of the largest prior variance k, from which on rounding stays small
where a step amplifies it by (k / noise)²: when an observation is left out of a window, and in the
inverse over the arms played. Below, a window is computed anew in every round, and rows take the
place of the inverse.

Measured against a regression in every round on 6 x 6 points: for windows of 2 to 40 over 150
rounds, squared exponential and Matérn kernels of lengthscales 0.2 and 0.5 and noise 1e-4 k to k, an
error of at most 500 eps (k / noise)²; for the inverse, squared exponential kernels of lengthscales
0.2 to 10, noise 0.003 k to 0.1 k and arms at random over 500 rounds, of at most 1,800 eps
(k / noise)². So 4.5e-10 and 1.6e-9 at this noise. In single precision no usual noise is enough."""

LEAST_LOST = 1 / 512
"""Share of a covariance lost from a round to the next, 1 - a² (ε of a Markov model), from which on
rounding stays small in that inverse whatever the noise, since errors are lost with what is known.
With less of both, their shares of LEAST_NOISE and of this have to add up to one.

Measured against rows at that sum: squared exponential and Matérn kernels of lengthscales 0.1 to 3
on 6 x 6 to 23 x 23 points, noise 1e-6 k to k/64, over 100 to 700 rounds: an error of the mean of at
most 5.4e-10 of its prior standard deviation."""

FINEST_SHARE = 128
"""A posterior variance that a recursion is to reach in single precision, as a multiple of rounding:
n observations of noise σ² on an objective that stands still may leave no more than σ² / n.

Measured against fresh factorisations, 64 arms, noise 0.02 k, one unit of k being the variance of an
objective that drifts though none is expected to: means are off by 1e-4 after 1,000 rounds, where
n ε = 1/168 of the noise, by 2e-3 after 2,000, 0.09 after 5,000 and 0.24 after 20,000. The standard
deviation at its smallest is then 0.005, 0.004, 0.002 and 0.001. In double precision it would take
10^11 rounds."""

REFRESH_ROUNDS = 32
"""A window is computed anew at least this often, so that rounding does not pile up."""

FEWEST_ROWS = 32
"""Rows are not absorbed before there are this many, so that touching all of B stays rare."""

FIRST_SLOTS = 16
"""Arms for which there is room at first, and rounds between two looks at a device's counts."""

FEW_NUMBERS = 2**15
"""Scores up to which an argmax of bytes, one operation, is faster than a maximum of ranks."""

FACTOR_BLOCK = 64
"""Observations whose rows of a factor are computed, and kept, together."""

FEWEST_REMAINING = 768
"""Rows in use from which on it pays to keep a block's rows in a factor when they have left."""

FACTOR_GROWTH = 1.25
"""Room for a growing factor, as a multiple of what is needed."""

STRIP = 256
"""Rows of a triangle multiplied at a time: more take more of its zeros along, fewer are slower."""

# How much is worked on at a time.

BLOCK_NUMBERS = {"cpu": 2**18, "cuda": 2**28}
"""Numbers in the largest matrix of a block of trials: what a cache or a memory holds at ease."""

CACHED_NUMBERS = 2**17
"""Intermediate results are kept to this size where they can be: one megabyte in float64."""

JOINTLY = 512
"""Arms whose joint covariance is computed at a time."""

SEARCH_NUMBERS = 2**22
"""Numbers in the largest matrix of a block of raw samples."""

# What memory is estimated by: counted in the code; tests hold the sum to within a factor of 2.

AT_ONCE = 8
"""Vectors over all arms that a round works on."""

GROWTH_STEPS = 64
"""Numbers of observations at which what grows with them is looked at."""

DECAYS_AT_ONCE = 4
"""Matrices of all pairs of observations that the temporal factors are computed in."""

POSTERIOR_MATRICES = 6
"""Matrices of a block of observations against all that a posterior is computed in."""

ROOT_MATRICES = 5
"""Matrices of all pairs of functions on a box that a posterior is computed in."""

DECAY_MATRICES = 2
"""Further matrices if covariances decay with time."""

WAVES = 4
"""Numbers per frequency that the value of a function drawn is computed in."""

SCORING = 4
"""Matrices of points against observations that a score is computed in."""

FEATURE_SCORING = 3
"""The same for points against functions on a box."""

CLIMBING = 12
"""Matrices of points against either where its derivative is computed besides."""
