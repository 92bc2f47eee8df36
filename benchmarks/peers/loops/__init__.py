"""Loops of the peers; every module imports packages of its own environment."""
