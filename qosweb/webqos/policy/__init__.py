"""Policy binding: evaluates a model under the facts of one moment, for shares, priorities and terms per class."""
