"""Local state of one node: its own requests, its channels, and the batches it sends to the other nodes."""
