"""The process of ``qosweb serve``: start, signals, shutdown."""
