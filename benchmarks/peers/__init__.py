"""Living peers on the same worlds and seeds: `python -m benchmarks.peers --out FOLDER`."""
