"""Emergency block list: clients and networks that are refused, shared by all nodes on every side of a partition."""
