"""Releases at a node: which release a client gets, files from other nodes, and the service that keeps them."""
