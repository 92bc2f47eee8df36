"""What an exploration sees in a round: all arms of a grid, or points of a box as they are asked."""
