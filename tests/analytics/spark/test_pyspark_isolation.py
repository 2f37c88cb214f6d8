import os
import signal
import subprocess
import sys

import pytest

from qosweb.analytics.spark import pyspark_isolation


def test_spark_sees_the_given_variables_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/before")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/before")
    monkeypatch.setenv("JAVA_HOME_21", "/before")
    before = dict(os.environ)
    with pyspark_isolation.variables({"JAVA_HOME": "/given", "SPARK_HOME": "/given"}):
        assert os.environ["JAVA_HOME"] == os.environ["SPARK_HOME"] == "/given"
        assert "HADOOP_CONF_DIR" not in os.environ
        assert os.environ["JAVA_HOME_21"] == "/before"
        os.environ["SPARK_BUFFER_SIZE"] = "1"
    assert dict(os.environ) == before


def test_the_interrupt_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pyspark_isolation.interrupt():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) == before


def test_only_the_directorys_entries_leave_the_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/lib"])
    with pyspark_isolation.import_path("/scratch"):
        sys.path[:] = ["/lib", "/scratch/files", "/mine"]
    assert sys.path == ["/lib", "/mine"]


@pytest.mark.parametrize(("command", "status"), [("read line", 1), ("exec sleep 600", -signal.SIGKILL)])
def test_a_process_that_does_not_leave_is_killed(command: str, status: int) -> None:
    started = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE)
    pyspark_isolation._end(started, timeout_s=60 if status == 1 else 0.1)
    assert started.returncode == status
