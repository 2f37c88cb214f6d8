"""Pacing: sends all responses of a node at one rate, in the order of their classes."""
