"""Judges each guarantee: kept, violated or not tested."""
