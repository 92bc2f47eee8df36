"""Batched Gaussian-process inference over finitely many arms."""
