"""Data service: a replicated state machine whose queries are shared among the members of a view, primary or not."""
