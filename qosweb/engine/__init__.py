"""QoS engine: a replicated request queue and scheduler (pure), and each node's own requests on top of it."""
