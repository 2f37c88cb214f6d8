"""Cluster membership of a node."""
