"""Notebooks, paired with text, and what runs them."""
