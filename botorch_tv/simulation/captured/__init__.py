"""Rounds of a study whose work on a GPU is recorded once and then started as a whole."""
