"""From a request to its class, in a few lookups."""
