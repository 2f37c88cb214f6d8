"""How the capacity of the cluster is divided among the classes, and whether a specification can be kept at all."""
