"""Reading the logs in bulk, with Spark. Needs the extra `analytics`; nothing else imports this package."""


class AnalyticsUnavailableError(Exception):
    """Something that `pip install 'qosweb[analytics]'` brings is missing; the message is for the user."""
