"""What a round costs: next to loops written with BoTorch alone, and late in a long run."""
