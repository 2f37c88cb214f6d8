"""The WebQoS language."""
