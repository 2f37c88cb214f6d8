"""Control laws: pure functions of observations that find the capacity of a resource."""
