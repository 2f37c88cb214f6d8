"""A distributed HTTP server with enforceable quality-of-service guarantees."""

from qosweb.version import VERSION

__all__ = ["VERSION"]
