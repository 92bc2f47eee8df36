"""Regret bounds of the five papers, one module per paper."""
