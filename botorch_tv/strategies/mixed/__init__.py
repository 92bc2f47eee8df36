"""Numbers and categories chosen together, as Optuna and Ax have them."""
