"""A session whose JVM is killed under it, then another in the same process.

Not a test: `test_session` runs it.
"""

from typing import Any

from pyspark import SparkContext

from qosweb.analytics.session import spark_session


def main() -> None:
    try:
        with spark_session("killed", "local[1]") as spark:
            gateway: Any = SparkContext._gateway
            gateway.proc.kill()
            gateway.proc.wait()
            spark.range(3).count()
    except Exception:
        print("failed")
    with spark_session("next", "local[1]") as spark:
        print(spark.range(3).count())
        try:
            with spark_session("nested"):
                pass
        except RuntimeError as error:
            print(error)


if __name__ == "__main__":
    main()
