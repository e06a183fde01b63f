"""Benchmarks: `python -m bench` measures against the targets, with the reference library beside."""
