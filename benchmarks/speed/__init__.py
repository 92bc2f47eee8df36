"""Cost of a round.

- `botorch_loops`: against loops written with BoTorch alone;
- `limits`: against the limits of the device, on the CPU and on a GPU, also late in a run;
- `figure4`: in the 30,000 trials of [ET] figure 4.
"""
