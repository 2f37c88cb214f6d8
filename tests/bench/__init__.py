"""Benchmarks: scripts that print ratios against a peer or a plain baseline measured in the same run."""
