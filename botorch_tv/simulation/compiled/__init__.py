"""Rounds of many trials in machine code, trial by trial with everything in a core's cache."""
