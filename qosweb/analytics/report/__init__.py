"""Writes the findings: terminal, JSON, HTML, Parquet."""
