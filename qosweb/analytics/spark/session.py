"""Opens and closes a Spark session with settings that suit the analysis.

Unless ``spark-submit`` started the process, the session ignores the Spark settings of the environment, and listens on
the loopback only unless its master is on another machine. PySpark allows one session per process and keeps its JVM
until the process ends.
"""

import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.analytics.errors import AnalyticsUnavailableError
from qosweb.analytics.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
ELSEWHERE = "192.0.2.1"  # reserved for documentation (RFC 5737): stands for a master whose address is not known

_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it for the Python process that it starts
_OF_SESSION = ("spark.sql.", "spark.python.sql.")
_SPARK_VARIABLES = ("HADOOP_", "PYSPARK_", "SPARK_", "YARN_")
_HOST = re.compile(r"(?:spark|k8s)://(?:https?://)?(?:\[([0-9A-Fa-f:.]+)\]|([^/:,\[\]]+))")


@contextmanager
def spark_session(
    app_name: str, master: str = "local[*]", *, conf: Mapping[str, str] | None = None
) -> Iterator["SparkSession"]:
    """Opens a new session and stops it at the end of the with block; ``conf`` adds or overrides settings."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        raise AnalyticsUnavailableError(
            f"Analytics needs {error.name}. Run `pip install 'qosweb[analytics]'`."
        ) from None
    if SparkSession.getActiveSession() is not None:
        raise RuntimeError("a Spark session is already running in this process")
    submitted = is_submitted()
    address = LOOPBACK if submitted else address_for(master)
    settings: dict[str, bool | float | int | str | None] = {**session_settings(address), **(conf or {})}
    environment = dict(os.environ)
    if submitted:  # the JVM runs already: only what a session can still choose
        settings = {name: value for name, value in settings.items() if name.startswith(_OF_SESSION)}
    else:
        environment = _without_spark(environment) | java.environment(os.environ) | session_environment(address)
    with _environment(environment):
        try:
            builder = SparkSession.builder.appName(app_name)
            session = (builder if submitted else builder.master(master)).config(map=settings).getOrCreate()
        except Exception as error:  # Py4J and PySpark raise several kinds
            raise AnalyticsUnavailableError(f"cannot start Spark on {master}: {short_message(error)}") from None
    try:
        yield session
    finally:
        with suppress(Exception):  # fails if the JVM has died
            session.stop()


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process. It has chosen the master, the Java and their settings."""
    return _SUBMITTED in os.environ


def short_message(error: Exception) -> str:
    """The root cause in a Java stack trace, or the first lines of another error."""
    try:
        text = str(error)
    except Exception:
        return f"{type(error).__name__}; its JVM has ended"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else " ".join(lines[:2]) or type(error).__name__)[:500]


def _without_spark(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(_SPARK_VARIABLES)}


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Replaces the environment for Spark's launcher, which reads it before any setting; then restores it."""
    before = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(wanted)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def session_environment(address: str) -> dict[str, str]:
    return {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(java.HOME / "conf"), "SPARK_LOCAL_IP": address}


def session_settings(address: str) -> dict[str, str]:
    temporary = tempfile.gettempdir()
    return {
        "spark.driver.bindAddress": address,
        "spark.driver.defaultJavaOptions": f'"-Djava.io.tmpdir={temporary}" -Duser.timezone=UTC',
        "spark.driver.host": address,
        "spark.local.dir": temporary,
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # fewer calls into the JVM for each column
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",  # the extra does not install Arrow
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": Path(temporary).as_uri(),  # else Spark makes a folder in the current directory
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def address_towards(host: str) -> str:
    """The local address from which this machine sends to ``host``. Raises OSError if there is no route.

    Connecting a UDP socket looks up the route and sends nothing.
    """
    family, kind, protocol, _, target = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


def address_for(master: str, towards: Callable[[str], str] = address_towards) -> str:
    """The address at which Spark's workers reach the session. Raises AnalyticsUnavailableError if there is none."""
    if master.startswith("local"):
        return LOOPBACK
    found = _HOST.match(master)
    host = (found[1] or found[2]) if found else ELSEWHERE
    try:
        own = towards(host)
    except OSError as error:
        raise AnalyticsUnavailableError(
            f"cannot start Spark on {master}: no route to {host} ({error.strerror})"
        ) from None
    return f"[{own}]" if ":" in own else own
