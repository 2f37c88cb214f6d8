"""Verdicts: decides for each guarantee whether it was held, violated or not tested."""
