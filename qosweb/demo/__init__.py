"""``qosweb demo``: a cluster on this machine, with the sample shop and a gentle load, for whoever wants to see it."""
