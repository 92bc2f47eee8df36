"""What has to hold on average over many trials, measured."""
