"""How far what a strategy believed was from the truth, arm by arm."""
