"""The model of a specification: immutable, serialisable, and equal for equal specifications."""
