"""Log analysis on Spark: checks from access logs which guarantees were kept. Needs the extra `analytics`.

    from qosweb.analytics import analyze, open_session, read_requests

    with open_session() as spark:  # or any SparkSession of yours
        read_requests(spark, "/var/log/qosweb").groupBy("class", "decision").count().show()
        found = analyze(spark, "/var/log/qosweb")
        found.verdicts().where("outcome = 'violated'").show()

Importing this package does not import PySpark.
"""

from qosweb.analytics.api import Analysis, analyze, open_session, read_bad_lines, read_events, read_requests
from qosweb.analytics.errors import AnalyticsUnavailableError
from qosweb.analytics.read.rows import AnalysisLimits

__all__ = [
    "Analysis",
    "AnalysisLimits",
    "AnalyticsUnavailableError",
    "analyze",
    "open_session",
    "read_bad_lines",
    "read_events",
    "read_requests",
]
