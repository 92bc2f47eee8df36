"""Many processes as one posterior: a bank of rates, hazards, lengthscales and noise ratios.

A member (ε, h, ℓ, ρ) holds that f_t(x) = m + s g_t(x) and y = f_t(x) + noise of variance s² ρ,
the scale s and the constant m integrated out. Between observations Δ apart g keeps the share
(1 - ε)^(Δ/2) of itself, or jumps to a fresh draw with probability 1 - (1 - h)^Δ. A member
that jumps keeps its likeliest histories, which differ in the time of the newest jump (Adams and
MacKay, 2007), so that later observations decide whether a deviation was a jump. Members are
weighted by how well they predicted, and predictions are those of their mixture. No guarantee is
proved for it.
"""
