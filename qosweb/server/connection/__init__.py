"""Client connections: bytes to request heads, limits, TLS."""
