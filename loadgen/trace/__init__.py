"""Traces: which request is due when. Made from rate curves and page mixes or from logs; edited, read and written."""
