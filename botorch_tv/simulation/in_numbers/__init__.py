"""Strategies as numbers and tables, for compiled and captured rounds."""
