"""Request handling: the stages that turn a request into a response."""
