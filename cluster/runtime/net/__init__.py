"""Connections between members: addresses, handshake, frames."""
