"""The server process of ``qosweb serve``: start, signals, shutdown."""
