"""Cost of a round.

- `against_botorch`: against loops written with BoTorch alone;
- `limits`: against the limits of the device, on the CPU and on a GPU, also late in a run;
- `weighted_features`: WGP-UCB in features against exact WGP-UCB.
"""
