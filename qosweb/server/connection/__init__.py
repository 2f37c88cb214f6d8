"""Client connections: parsing of request heads, fast path, limits, TLS."""
