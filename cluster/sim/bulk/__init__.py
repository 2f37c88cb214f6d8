"""Simulator of the multicast transport (`cluster.bulk`)."""
