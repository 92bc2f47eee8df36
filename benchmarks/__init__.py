"""Benchmarks: commands that time the library or repeat a paper's figure, and their results."""
