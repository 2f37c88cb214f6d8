"""The commands of ``loadgen``: their arguments, and what they do with them."""
