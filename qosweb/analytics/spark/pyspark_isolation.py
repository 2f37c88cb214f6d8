"""What pyspark does to the process it runs in, and the undoing of it.

pyspark reads its orders from environment variables, adds to them and to the import path, takes over the
interrupt signal, and keeps its JVM until the interpreter exits. Each of these has a context manager here that
puts things back as they were; `chatter` and `quiet_bridge` keep from the user the JVM's remark on its own options,
and the traces that py4j logs of what it raises anyway.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

JVM_EXIT_TIMEOUT_S = 30.0

_REMARK = re.compile(rb"WARNING: Using incubator modules: [^\n]*\n")
_HEEDED = ("HADOOP_", "PYSPARK_", "SPARK_", "YARN_")


@contextmanager
def variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Of the environment variables that Spark heeds, these alone."""
    before = _swap(wanted)
    try:
        yield
    finally:
        _swap(before)


def _swap(wanted: Mapping[str, str]) -> dict[str, str]:
    heeded = [name for name in os.environ if name == "JAVA_HOME" or name.startswith(_HEEDED)]
    before = {name: os.environ.pop(name) for name in heeded}
    os.environ.update(wanted)
    return before


@contextmanager
def interrupt() -> Iterator[None]:
    """The handler of SIGINT; only the main thread's pyspark touches it."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def import_path(directory: str) -> Iterator[None]:
    """What was put on the import path from below this directory goes; other additions stay."""
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if not entry.startswith(directory)]


@contextmanager
def chatter() -> Iterator[None]:
    """A process that is started meanwhile gets a standard error that loses the JVM's remark on its own options."""
    kept = os.dup(2)
    source, target = os.pipe()
    os.dup2(target, 2)
    os.close(target)
    threading.Thread(target=_pass_on, args=(source, kept), daemon=True).start()
    try:
        yield
    finally:
        os.dup2(kept, 2)


def _pass_on(source: int, target: int) -> None:
    """Until nobody has the other end any more."""
    while data := os.read(source, 1 << 16):
        rest = memoryview(_REMARK.sub(b"", data))
        while rest:
            rest = rest[os.write(target, rest) :]
    os.close(source)
    os.close(target)


def quiet_bridge() -> None:
    """When the JVM dies, py4j logs traces of it by the root logger, in threads of its own too: for good, by its own.

    The root logger would begin to write to standard error for it, for all other messages as well.
    """
    from py4j import java_gateway

    java_gateway.logging = java_gateway.logger


@contextmanager
def jvm() -> Iterator[None]:
    """The JVM that pyspark starts meanwhile ends here."""
    from pyspark import SparkContext

    try:
        yield
    finally:
        gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public name for it
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - else the next session takes the dead one
        if gateway is not None:
            gateway.shutdown()
            _end(gateway.proc)


def _end(process: subprocess.Popen[bytes], timeout_s: float = JVM_EXIT_TIMEOUT_S) -> None:
    assert process.stdin is not None
    process.stdin.close()  # the JVM's sign to leave
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
