"""What a round costs: against loops written with BoTorch alone, and against the number of rounds."""
