"""Durable store of a member: a SQLite file, its transactions and its integrity checks."""
