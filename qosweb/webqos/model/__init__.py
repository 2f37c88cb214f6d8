"""What a specification becomes: immutable, serialisable, equal for equal specifications."""
