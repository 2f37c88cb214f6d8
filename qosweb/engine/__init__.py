"""The QoS engine: the replicated queue and scheduler (pure), and the admission of one node's requests to it."""
