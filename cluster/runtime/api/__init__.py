"""Public API of a member: Group, Replica, options and events."""
