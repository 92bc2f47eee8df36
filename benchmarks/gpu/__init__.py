"""All that is to be known of a GPU, by one command: `python -m benchmarks.gpu --out DIR`."""
