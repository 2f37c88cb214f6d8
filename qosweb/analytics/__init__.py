"""Reading the logs in bulk, with Spark. Needs the extra `analytics`; nothing else imports this package."""

from qosweb.errors import UsageError


class AnalyticsUnavailableError(UsageError):
    """Something that `pip install 'qosweb[analytics]'` brings is missing."""
