"""Tests of the group communication stack, layer by layer and as a whole."""
