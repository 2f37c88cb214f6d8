"""``./dev bench analyze``: the full analysis of a synthetic log, compared with one aggregate over the same lines.

In one run, on one machine, it measures: the start of a session; one aggregate (sums by class and decision) over the
JSON lines on a warm Spark; the full analysis with all verdicts and tables; the same aggregate in DuckDB, if that module
is installed; and goaccess on the first million of the requests in the combined format, if installed (compared per line,
because writing all lines in that format takes longer than reading them). The goals: the analysis takes at most three
times the aggregate, and the verdict on a small log comes within the start of a session and five seconds. Compared runs
alternate, and the medians of the rounds count. For the first goal Spark is warm. For the second each run is a new
process, as for a user, measured from its start. The start of our own session is quicker than Spark's usual start; the
latter is printed for comparison. The CPU time of the JVM is printed as well, for machines that are busy. Ten million
lines take about seven minutes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psutil

from qosweb.analytics.command import settings
from qosweb.analytics.read import sources
from qosweb.analytics.spark import java
from qosweb.analytics.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

RATE = 2_000
RATIO_MAX = 3.0
SMALL_LINES = 5_000
SMALL_MAX_S = 5.0
GOACCESS_LINES = 1_000_000
SESSION = """
from qosweb.analytics.command import settings
from qosweb.analytics.spark.session import spark_session
with spark_session("bench", conf=settings("local[*]", 0)):
    print("there", flush=True)
"""
BARE_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
print("there", flush=True)
spark.stop()
"""
SHARES = {"A": 35, "B": 25, "C": 20, "D": 12, "E": 8}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench analyze", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="number of lines; the goals are for 10000000")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench-results/analyze.json"))
    options = parser.parse_args(arguments)
    figures: dict[str, Any] = {
        "lines": options.lines, "load_before": os.getloadavg(), "python": platform.python_version(),
        "cores": os.cpu_count(),
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="bench-analyze-") as scratch:
        log, small = Path(scratch) / "access.log", Path(scratch) / "small.log"
        figures["generate_s"] = _timed(lambda: _generate(log, options.lines))
        _generate(small, SMALL_LINES)
        figures["bytes"] = log.stat().st_size
        _on_spark(log, options.rounds, figures)
        _small(small, options.rounds, figures)
        _duckdb(log, options.rounds, figures)
        _goaccess(log, Path(scratch) / "combined.log", figures)
    aggregate, whole = median(figures["spark_aggregate_s"]), median(figures["analysis_s"])
    figures["ratio"] = whole / aggregate
    figures["ratio_cpu"] = median(figures["analysis_cpu_s"]) / median(figures["spark_aggregate_cpu_s"])
    figures["rows_per_s"] = options.lines / whole
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n")
    for name, value in figures.items():
        print(f"{name:26} {value}")
    small_ok = figures["small_after_session_s"] <= SMALL_MAX_S
    print(f"analysis / Spark's aggregate       {figures['ratio']:.2f} (goal: at most {RATIO_MAX:g})")
    print(f"the same in CPU time               {figures['ratio_cpu']:.2f}")
    if "duckdb_aggregate_s" in figures:
        print(f"analysis / DuckDB's aggregate      {whole / median(figures['duckdb_aggregate_s']):.2f}")
    if "goaccess_s" in figures:
        by_line = figures["goaccess_s"] / figures["goaccess_lines"]
        print(f"analysis / goaccess, by line       {whole / options.lines / by_line:.2f}")
    print(f"small log: verdict after a session {figures['small_after_session_s']:.1f} s (goal: {SMALL_MAX_S:g} s)")
    print(f"small log: end after a session     {figures['small_end_after_session_s']:.1f} s")
    print(
        f"small log: verdict after a bare one {figures['small_after_bare_s']:.1f} s (for comparison: decides nothing)"
    )
    return 0 if figures["ratio"] <= RATIO_MAX and small_ok else 1


def _timed(act: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    act()
    return time.perf_counter() - begun_s


def _generate(target: Path, lines: int) -> None:
    spec = target.with_suffix(".webqos")
    spec.write_text(
        "set lifetime = 500ms\n" + "".join(f"</{n}>.server_resource > {p}% as {n}\n" for n, p in SHARES.items())
    )
    command = [
        sys.executable, "-m", "loadgen.cli", "trace", "--rate", str(RATE), "--duration", f"{lines / RATE}s",
        "--arrivals", "constant", "--zipf", "1", "--as-log", "--capacity", "16MB", "--log-spec", str(spec),
        "--out", str(target),
    ]  # fmt: skip
    for name, part in SHARES.items():
        command += ["--mix", f"{name}=1:/{name}/{{1..2000}}.html", "--share", f"{name}={part}%"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _on_spark(log: Path, rounds: int, figures: dict[str, Any]) -> None:
    found = sources.find([str(log)])
    conf = settings("local[*]", sources.size(found))
    begun_s = time.perf_counter()
    with spark_session("bench", conf=conf) as spark:
        from pyspark import SparkContext

        from qosweb.analytics.analysis import analyse
        from qosweb.analytics.read.rows import AnalysisRequest

        figures["session_s"] = time.perf_counter() - begun_s
        figures["spark"] = spark.version
        figures["spark_aggregate_cold_s"] = _timed(lambda: _aggregate(spark, log))
        gateway: Any = SparkContext._gateway
        jvm = psutil.Process(gateway.proc.pid)
        for name in ("spark_aggregate", "analysis"):
            figures[f"{name}_s"], figures[f"{name}_cpu_s"] = [], []
        acts = {
            "spark_aggregate": lambda: _aggregate(spark, log),
            "analysis": lambda: analyse(spark, AnalysisRequest(found)),
        }
        figures["analysis_cold_s"] = _timed(acts["analysis"])
        for _ in range(rounds):
            for name, act in acts.items():
                before = sum(jvm.cpu_times()[:2])
                figures[f"{name}_s"].append(_timed(act))
                figures[f"{name}_cpu_s"].append(sum(jvm.cpu_times()[:2]) - before)


def _aggregate(spark: SparkSession, log: Path) -> None:
    from pyspark.sql import functions as f

    from qosweb.analytics.read.log_lines import REQUEST_SCHEMA

    lines = spark.read.schema(REQUEST_SCHEMA).json(str(log))
    rows = lines.groupBy("class", "decision").agg(f.count(f.lit(1)), f.sum("bytes"), f.max("total_ms")).collect()
    assert len(rows) > len(SHARES)


def _small(log: Path, rounds: int, figures: dict[str, Any]) -> None:
    """Runs the command as a user does, until its verdict and until its end; alternating with a bare session.

    The goal is relative to our session with its settings for a small log, so that a faster start of the session does
    not help to reach it. A plain session, as others start Spark on the same Java, is measured for comparison.
    """
    command = [sys.executable, "-m", "qosweb", "analyze", str(log), "--quiet"]
    bare = os.environ | java.environment(os.environ) | {"SPARK_LOCAL_IP": "127.0.0.1"}
    for name in ("small_bare_s", "small_session_s", "small_verdict_s", "small_end_s"):
        figures[name] = []
    for _ in range(rounds):
        figures["small_bare_s"].append(_until([sys.executable, "-c", BARE_SESSION], "there", bare)[0])
        figures["small_session_s"].append(_until([sys.executable, "-c", SESSION], "there")[0])
        verdict_s, end_s = _until(command, "held: ")
        figures["small_verdict_s"].append(verdict_s)
        figures["small_end_s"].append(end_s)
    session_s = median(figures["small_session_s"])
    figures["small_after_session_s"] = median(figures["small_verdict_s"]) - session_s
    figures["small_after_bare_s"] = median(figures["small_verdict_s"]) - median(figures["small_bare_s"])
    figures["small_end_after_session_s"] = median(figures["small_end_s"]) - session_s


def _until(command: list[str], sign: str, environ: dict[str, str] | None = None) -> tuple[float, float]:
    """Time until a line of the output begins with this text, and until the process has ended."""
    begun_s, seen_s = time.perf_counter(), None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout
        for line in process.stdout:
            if seen_s is None and line.startswith(sign):
                seen_s = time.perf_counter() - begun_s
    assert process.returncode == 0
    assert seen_s is not None
    return seen_s, time.perf_counter() - begun_s


def _duckdb(log: Path, rounds: int, figures: dict[str, Any]) -> None:
    try:
        duckdb = importlib.import_module("duckdb")
    except ModuleNotFoundError:
        figures["duckdb"] = "not installed"
        return
    query = (
        "select class, decision, count(*), sum(bytes), max(total_ms) from read_json(?, format='newline_delimited', "
        "columns={class: 'varchar', decision: 'varchar', bytes: 'bigint', total_ms: 'double'}) group by all"
    )
    figures["duckdb"] = duckdb.__version__
    figures["duckdb_aggregate_s"] = [
        _timed(lambda: duckdb.connect().execute(query, [str(log)]).fetchall()) for _ in range(rounds)
    ]


def _goaccess(log: Path, combined: Path, figures: dict[str, Any]) -> None:
    program = shutil.which("goaccess")
    if program is None:
        figures["goaccess"] = "not installed"
        return
    count = 0
    with log.open() as source, combined.open("w") as target:
        for line in source:
            said = json.loads(line)
            if "event" in said:
                continue
            if count == GOACCESS_LINES:
                break
            count += 1
            when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(said["ts"]))
            asked = f'"GET {said["path"]} HTTP/1.1" {said["status"]} {said["bytes"]}'
            target.write(f'{said["client"]} - - [{when}] {asked} "-" "-"\n')
    command = [
        program,
        str(combined),
        "--log-format=COMBINED",
        "--no-progress",
        "-o",
        str(combined.with_suffix(".json")),
    ]
    figures["goaccess_lines"] = count
    figures["goaccess_s"] = _timed(lambda: subprocess.run(command, check=True, capture_output=True))
    figures["goaccess"] = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout[
        :40
    ]
