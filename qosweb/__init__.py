"""A distributed HTTP server that keeps promises."""

from qosweb.version import VERSION

__all__ = ["VERSION"]
