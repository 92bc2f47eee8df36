"""Measurements on a GPU, in one command: `python -m benchmarks.gpu --out DIR`."""
