"""QoS engine: a replicated request queue and scheduler (pure), and each node's local queue on top of it."""
