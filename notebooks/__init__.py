"""Notebooks and the module that runs them."""
