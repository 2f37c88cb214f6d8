"""Report output: terminal, HTML, JSON and Parquet."""
