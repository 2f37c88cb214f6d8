"""Forwarding of requests to upstream servers and to other nodes."""
