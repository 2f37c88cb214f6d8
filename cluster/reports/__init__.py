"""Reports: semantically reliable broadcast of values that the next value makes obsolete."""
