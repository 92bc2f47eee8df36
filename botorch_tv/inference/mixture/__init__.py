"""Many processes as one posterior: a bank of rates, hazards, lengthscales and noise ratios.

A member (ε, h, ℓ, ρ) holds that f_t(x) = m + s g_t(x) and y = f_t(x) + noise of variance s² ρ,
the scale s and the constant m integrated out. Between observations Δ apart g keeps the share
(1 - ε)^(Δ/2) of itself, or jumps to a fresh draw with probability 1 - (1 - h)^Δ. Of a member that
jumps the likeliest histories are kept, each with its newest jump at another time (Adams and MacKay,
2007), so that later observations tell whether one that was off came after a jump. Members are
weighed by how well they predicted, and what is predicted is their mixture. No guarantee is proved
for it.
"""
