"""Reading the logs in bulk, with Spark. Needs the extra `analytics`; of the rest only the command line knows of it."""

from qosweb.errors import UsageError


class AnalyticsUnavailableError(UsageError):
    """Something that `pip install 'qosweb[analytics]'` brings is missing."""
