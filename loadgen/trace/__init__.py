"""Traces: which request is due when. Made from curves and mixes or out of logs, edited, read and written."""
