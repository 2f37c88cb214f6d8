"""Two sessions whose JVM is killed under them, once idle and once asked something, then another in the same process.

Not a test: `test_session` runs it.
"""

import logging
import signal
import threading
from typing import Any

from pyspark import SparkContext

from qosweb.analytics.spark.session import spark_session

TIME_TO_ASK_S = 0.5


def main() -> None:
    try:
        with spark_session("killed", "local[1]") as spark:
            gateway: Any = SparkContext._gateway
            gateway.proc.kill()
            gateway.proc.wait()
            spark.range(3).count()
    except Exception:
        print("failed")
    try:
        with spark_session("killed while asked", "local[1]") as spark:
            gateway = SparkContext._gateway
            gateway.proc.send_signal(signal.SIGSTOP)  # the question is sent, and never read
            threading.Timer(TIME_TO_ASK_S, gateway.proc.kill).start()
            spark.range(3).count()
    except Exception:
        print("failed")
    assert logging.getLogger().handlers == []
    with spark_session("next", "local[1]") as spark:
        print(spark.range(3).count())
        try:
            with spark_session("nested"):
                pass
        except RuntimeError as error:
            print(error)


if __name__ == "__main__":
    main()
