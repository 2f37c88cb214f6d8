"""Benchmarks: scripts that print ratios to a peer or a plain baseline measured in the same run."""
