"""Strategies as numbers and tables, for rounds that are compiled or captured."""
