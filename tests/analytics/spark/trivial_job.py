"""A small Spark job that prints as JSON the environment of the JVM and of the Python workers.

Not a test: `test_session` runs it as a process.
"""

import json
import os
import sys

from qosweb.analytics.command import settings
from qosweb.analytics.spark.session import spark_session


def executable(_: int) -> str:
    return sys.executable


def main() -> None:
    before = dict(os.environ)
    with spark_session("trivial", "local[2]", conf=settings("local[2]", 0)) as spark:
        context = spark.sparkContext
        frame = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], ["page", "hits"])
        totals = frame.groupBy("page").sum("hits")
        version = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0]
        report = {
            "hour": spark.sql("select string(timestamp_seconds(3600))").collect()[0][0],
            "host": context.getConf().get("spark.driver.host"),
            "java_version": version,
            "totals": dict(sorted(map(tuple, totals.collect()))),
            "ui": context.uiWebUrl,
            "workers": context.parallelize([0], 1).map(executable).collect(),
            "environ": dict(os.environ) == before,
        }
        try:
            with spark_session("nested"):
                pass
        except RuntimeError as error:
            report["nested"] = str(error)
    with spark_session("next", "local[1]") as spark:
        report["next"] = spark.range(3).count()
    print(json.dumps(report))


if __name__ == "__main__":
    main()
