"""How each peer is asked and told; every module imports what it needs of its own environment."""
