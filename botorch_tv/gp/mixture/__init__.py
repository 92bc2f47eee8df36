"""A mixture of processes: a bank of rates, hazards, lengthscales and noise ratios.

A member (ε, h, ℓ, ρ) assumes f_t(x) = m + s g_t(x) and y = f_t(x) + noise of variance s² ρ; the
scale s and the constant m are integrated out. Over a time Δ, g jumps to a new sample with
probability 1 - (1 - h)^Δ; otherwise its correlation with its past is (1 - ε)^(Δ/2). A history is a
member with an assumed time of the newest jump. A member that jumps retains its most probable
histories (Adams and MacKay, 2007), so later observations decide whether a deviation was a jump.
Members are weighted by their marginal likelihoods, and predictions are those of the mixture. No
regret bound is proved for the mixture.
"""
