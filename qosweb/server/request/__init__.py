"""The stages that turn a request into a response."""
