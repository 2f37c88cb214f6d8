"""Exceptions of the analysis."""

from qosweb.errors import UsageError


class AnalyticsUnavailableError(UsageError):
    """Something that `pip install 'qosweb[analytics]'` brings is missing, or Spark cannot start."""


class NoRequestsError(UsageError):
    """The logs contain no request that can be read."""
