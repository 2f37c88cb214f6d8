"""A small Spark job: prints as JSON what the JVM and the Python workers say of themselves.

Not a test: `test_session` runs it once for each kind of Java.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import functions

from qosweb.analytics.spark.session import spark_session


def executable(_: int) -> str:
    return sys.executable


def main() -> None:
    before = (dict(os.environ), list(sys.path), signal.getsignal(signal.SIGINT))
    with spark_session("trivial", "local[2]", conf={"spark.sql.shuffle.partitions": "2"}) as spark:
        context = spark.sparkContext
        gateway: Any = SparkContext._gateway
        system = gateway.jvm.java.lang.System
        scratch = Path(system.getProperty("java.io.tmpdir")).parent
        frame = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], ["page", "hits"])
        # A lambda, since without pandas pyspark warns of every annotated function.
        doubled = functions.udf(lambda hits: 2 * hits, "long")
        totals = frame.withColumn("hits", doubled("hits")).groupBy("page").sum("hits")
        report = {
            "environ": {name: os.environ[name] for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP")},
            "hour": spark.sql("select string(timestamp_seconds(3600))").collect()[0][0],
            "host": context.getConf().get("spark.driver.host"),
            "java_home": system.getProperty("java.home"),
            "java_version": system.getProperty("java.version"),
            "totals": dict(sorted(map(tuple, totals.collect()))),
            "ui": context.uiWebUrl,
            "workers": sorted(set(context.parallelize(range(4), 2).map(executable).collect())),
        }
        assert scratch.is_dir()
    report["left"] = {
        "environ": dict(os.environ) == before[0],
        "interrupt": signal.getsignal(signal.SIGINT) == before[2],
        "jvm": gateway.proc.returncode is not None,
        "path": sys.path == before[1],
        "scratch": not scratch.exists(),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
