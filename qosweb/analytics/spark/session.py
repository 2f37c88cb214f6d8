"""The one place where a Spark session is made, and unmade.

A session here depends on nothing but its arguments: what the environment says to Spark is set aside while it
lives, its files lie in a directory that goes with it, it listens on the loopback only (with a master elsewhere, where
that can reach it), and its JVM ends with it. pyspark keeps its session in the process, hence one at a time.
Below: `java` finds a Java, `driver_address` an address, `pyspark_isolation` undoes what pyspark does to the process.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark import java, pyspark_isolation
from qosweb.analytics.spark.driver_address import address_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A class is looked for in one jar after the other, and Spark has nearly 300 of them in any order: those in which most
# classes are found come first.
_FIRST_JARS = (
    "scala-library", "spark-catalyst", "spark-sql_", "spark-core", "spark-sql-api", "spark-common-utils",
    "spark-unsafe", "spark-network", "log4j-core", "log4j-api", "hadoop-client-api", "jackson-core-2",
    "jackson-databind", "jackson-module-scala", "netty-common", "netty-buffer", "guava", "json4s", "scala-reflect",
)  # fmt: skip

_LOGGING = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark: %p %c{1}: %m%n%ex{none}
"""


@contextmanager
def spark_session(
    app_name: str,
    master: str = "local[*]",
    *,
    conf: Mapping[str, str] | None = None,
    meanwhile: Callable[[Any], None] | None = None,
) -> Iterator["SparkSession"]:
    """A session of its own, for the length of a with block; `conf` adds to the settings or overrides them.

    `meanwhile` is given the JVM as soon as it answers, and what it begins there goes on beside the start.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise AnalyticsUnavailableError(
            f"Analytics needs {error.name}. Run `pip install 'qosweb[analytics]'`."
        ) from None
    if pyspark.SparkContext._active_spark_context is not None:  # noqa: SLF001 - the public way asks this thread
        raise RuntimeError("a Spark session is already running in this process")
    address = address_for(master)
    home = java.find(os.environ).home
    with tempfile.TemporaryDirectory(prefix="qosweb-spark-", ignore_cleanup_errors=True) as scratch:
        spark_home = Path(pyspark.__file__).parent
        environ = session_environment(home, spark_home, _conf_dir(Path(scratch)), address)
        settings = session_settings(Path(scratch), spark_home, address) | dict(conf or {})
        pyspark_isolation.quiet_bridge()
        with (
            pyspark_isolation.variables(environ),
            pyspark_isolation.interrupt(),
            pyspark_isolation.import_path(scratch),
            pyspark_isolation.jvm(),
        ):
            builder = SparkSession.builder.appName(app_name).master(master)
            for name, value in settings.items():
                builder.config(name, value)
            with pyspark_isolation.chatter():
                session = _made(builder, master, settings, meanwhile)
            try:
                yield session
            finally:
                _stop(session)


def _made(
    builder: "SparkSession.Builder",
    master: str,
    settings: Mapping[str, str],
    meanwhile: Callable[[Any], None] | None,
) -> "SparkSession":
    try:
        if meanwhile is not None:
            meanwhile(_jvm(master, settings))
        return builder.getOrCreate()
    except Exception as error:  # of whatever kind: what it says has to be asked of the JVM while that is there
        from pyspark import SparkContext

        said = in_short(error)
        if (context := SparkContext._active_spark_context) is not None:  # noqa: SLF001 - half made, nobody else has it
            context.stop()
        raise AnalyticsUnavailableError(f"no Spark session on {master}: {said}") from None


def _jvm(master: str, settings: Mapping[str, str]) -> Any:
    """The JVM that the session will be made in, as pyspark would start it for that."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf().setMaster(master).setAll(list(settings.items())))  # noqa: SLF001
    return SparkContext._jvm  # noqa: SLF001 - pyspark has no public names for these


def in_short(error: Exception) -> str:
    """Of a trace of Java's, the last cause."""
    try:
        text = str(error)
    except Exception:
        return f"{type(error).__name__}; its JVM has ended"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else " ".join(lines[:2]) or type(error).__name__)[:500]


def _stop(session: "SparkSession") -> None:
    try:
        session.stop()
    finally:
        session.sparkContext.stop()  # when the JVM has died, the first call gives up before it is done


def _conf_dir(scratch: Path) -> Path:
    directory = scratch / "conf"
    directory.mkdir()
    (directory / "log4j2.properties").write_text(_LOGGING)
    return directory


def session_environment(java_home: Path, spark_home: Path, conf_dir: Path, address: str) -> dict[str, str]:
    """What Spark is told by variables: its launcher looks at them before it looks at any setting."""
    return {
        "JAVA_HOME": str(java_home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(conf_dir),
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": address,
    }


def session_settings(scratch: Path, home: Path, address: str) -> dict[str, str]:
    temporary = scratch / "tmp"
    temporary.mkdir()
    first = [str(jar) for name in _FIRST_JARS for jar in sorted((home / "jars").glob(f"{name}*.jar"))]
    return {
        "spark.driver.bindAddress": address,
        "spark.driver.defaultJavaOptions": f'"-Djava.io.tmpdir={temporary}" -Duser.timezone=UTC',
        "spark.driver.extraClassPath": os.pathsep.join(first),
        "spark.driver.host": address,
        "spark.local.dir": str(temporary),
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each column asks the JVM ten questions, not four
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",  # the extra brings no Arrow
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
