"""Exceptions of the analysis."""

from qosweb.errors import UsageError


class AnalyticsUnavailableError(UsageError):
    """Something that `pip install 'qosweb[analytics]'` brings is missing, or Spark cannot start."""
