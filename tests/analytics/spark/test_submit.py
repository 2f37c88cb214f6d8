"""The analysis under the real ``spark-submit`` of the installed PySpark, and its timings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from loadgen.cli import main
from qosweb.analytics.spark import java, submit

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def run(log: Path, *options: str) -> subprocess.CompletedProcess[str]:
    quick_start = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    environ = {**os.environ, **java.environment(os.environ), "SPARK_LOCAL_IP": "127.0.0.1"}
    environ["PYSPARK_PYTHON"] = sys.executable
    return subprocess.run(
        [SUBMIT, "--master", "local[2]", "--driver-java-options", quick_start, "--conf", "spark.ui.enabled=false",
         submit.__file__, str(log), *options],
        env=environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    made = tmp_path / "access.log"
    assert main(["trace", "--rate", "50", "--duration", "20s", "--as-log", "--out", str(made)]) == 0
    return made


def test_spark_submit_decides_where_the_analysis_runs(log: Path) -> None:
    done = run(log, "--timings")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nheld: 968 lines" in done.stdout  # spark-submit writes both streams of the program to one
    assert " s  starting Spark\n" in done.stdout
    assert " s  total\n" in done.stdout


def test_two_masters_are_an_error(log: Path) -> None:
    done = run(log, "--master", "local[1]")
    assert done.returncode == 2
    assert (
        "qosweb: error: --master local[1]: spark-submit has chosen the master; give it to spark-submit" in done.stdout
    )
