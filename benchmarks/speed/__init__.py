"""What a round costs.

- `botorch_loops`: next to loops written with BoTorch alone;
- `scaling`: late in a long run;
- `limits`: next to what the device can do, on the CPU and on a GPU where there is one;
- `figure4`: in the 30,000 trials of [ET] figure 4.
"""
