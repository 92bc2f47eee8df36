"""Results of full-size runs of the papers' experiments."""
