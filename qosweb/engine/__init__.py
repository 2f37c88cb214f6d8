"""QoS engine: a replicated request queue and scheduler (pure), and each node's local admission control on top of it."""
