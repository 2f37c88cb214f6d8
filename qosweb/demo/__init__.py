"""``qosweb demo``: runs a cluster on this machine, with the sample shop and a light load."""
