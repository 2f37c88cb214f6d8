"""Request classification: finds the class of a request with a few dictionary lookups."""
