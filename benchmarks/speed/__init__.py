"""Cost of a round.

- `botorch_loops`: against loops written with BoTorch alone;
- `limits`: against the limits of the device, on the CPU and on a GPU, also late in a run;
- `weighted_features`: WGP-UCB in features against exact WGP-UCB.
"""
