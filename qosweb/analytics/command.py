"""The command ``qosweb analyze``: checks the options, runs the analysis on a Spark session, writes the report."""

from __future__ import annotations

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.analytics.errors import AnalyticsUnavailableError
from qosweb.analytics.read import policies, sources
from qosweb.analytics.read.rows import NOT_TESTED, VIOLATED, AnalysisLimits, AnalysisRequest
from qosweb.analytics.spark.progress import StepProgress
from qosweb.analytics.spark.session import is_submitted, short_message, spark_session
from qosweb.errors import UsageError, read_option
from qosweb.plots import need_matplotlib
from qosweb.terminal_text import escape_controls
from qosweb.tools.situation import read_literal
from qosweb.units import parse_duration_s, parse_size
from qosweb.webqos import values

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.policies import LoggedPolicy

EXIT_HELD, EXIT_VIOLATED, EXIT_BAD_INPUT, EXIT_UNTESTED = 0, 1, 2, 3
_SEVERITY = (EXIT_HELD, EXIT_UNTESTED, EXIT_VIOLATED, EXIT_BAD_INPUT)  # with --each the worst counts
WINDOW_MAX_S = 86_400
EVERY_MIN_S, EVERY_MAX_S = 0.2, 3600.0

_MASTER = re.compile(r"local(\[(\*|[0-9]+)(,[0-9]+)?\])?|local-cluster\[.*\]|spark://.+:[0-9]+(,.+)*|yarn|k8s://.+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# By default the JVM does not compile methods above 8000 bytes of bytecode. Spark's generated loop over the lines
# exceeds this where a policy has response times, and would be interpreted.
_JVM = "-XX:-DontCompileHugeMethods"
# A small log is done before optimised code pays off: this halves the CPU time of 10,000 lines.
_SHORT_LIVED_JVM = f"{_JVM} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def analyze(arguments: argparse.Namespace) -> int:
    limits = limits_of(arguments)
    if arguments.master and is_submitted():
        raise UsageError(f"--master {arguments.master}: spark-submit has chosen the master; give it to spark-submit")
    arguments.master = arguments.master or "local[*]"
    if not _MASTER.fullmatch(arguments.master):
        raise UsageError(
            f"--master {arguments.master}: expected a form such as local[*], spark://host:7077, yarn or k8s://..."
        )
    if arguments.out:
        need_matplotlib("--out")
    spec = policies.from_file(arguments.spec) if arguments.spec else None
    if arguments.each:
        return _each(arguments, spec, limits)
    found = _sources(arguments)
    out = _folder(arguments.out) if arguments.out else None
    request = AnalysisRequest(found, spec, limits, arguments.response)
    if arguments.follow and out:
        from qosweb.analytics.follow.checkpoint import check_fixed, locked

        _pace(arguments)
        with locked(_checkpoint(arguments, out)):  # fail before Spark is started
            check_fixed(_checkpoint(arguments, out), request)
    with _spark(arguments, found) as (spark, progress):
        findings = (_follow if arguments.follow else _once)(spark, request, arguments, out, progress)
    return _write_report(findings, arguments, out)


def _each(arguments: argparse.Namespace, spec: LoggedPolicy | None, limits: AnalysisLimits) -> int:
    """Judges every LOG separately, on one session; an error in one log does not stop the others."""
    if arguments.follow or arguments.keep_lines:
        raise UsageError("--each cannot be combined with --follow or --keep-lines")
    named = dict(map(_named, arguments.logs))
    if len(named) < len(arguments.logs):
        raise UsageError("--each: two logs have the same name; write NAME=LOG")
    codes = {EXIT_HELD}
    with _spark(arguments, sources.Sources()) as (spark, progress):
        for name, log in named.items():
            progress.show_step(name)
            out = _folder(f"{arguments.out}/{name}") if arguments.out else None
            try:
                request = AnalysisRequest(sources.find([log], arguments.format), spec, limits, arguments.response)
                findings = _once(spark, request, arguments, out, progress)
            except UsageError as error:
                said = {"name": name, "error": str(error)}
                print(json.dumps(said) if arguments.json else escape_controls(f"{name}: {error}"))
                codes.add(EXIT_BAD_INPUT)
            else:
                codes.add(_write_report(findings, arguments, out, name))
            sys.stdout.flush()
    return max(codes, key=_SEVERITY.index)


def _named(log: str) -> tuple[str, str]:
    """``NAME=LOG``, or a log named after its file."""
    name, mark, path = log.partition("=")
    return (name, path) if mark and _NAME.fullmatch(name) else (Path(log).name, log)


@contextmanager
def _spark(arguments: argparse.Namespace, found: sources.Sources) -> Iterator[tuple[SparkSession, StepProgress]]:
    """Opens a session and the progress display. Turns Spark's exceptions into UsageError."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ModuleNotFoundError as error:
        raise AnalyticsUnavailableError(
            f"Analytics needs {error.name}. Run `pip install 'qosweb[analytics]'`."
        ) from None
    progress = StepProgress(quiet=arguments.quiet or arguments.json)
    progress.show_step("starting Spark")
    conf = settings(arguments.master, sources.size(found))
    conf["spark.ui.showConsoleProgress"] = str(progress.has_bar).lower()
    with spark_session("qosweb analyze", arguments.master, conf=conf) as spark:
        try:
            yield spark, progress
            progress.show_step("stopping Spark")
        except (PySparkException, Py4JError) as error:
            said = short_message(error)  # now, while the JVM can still be asked for the cause
            raise UsageError(f"Spark failed: {said}") from None
    if arguments.timings:
        sys.stderr.write(progress.timings())


def _write_report(findings: Findings, arguments: argparse.Namespace, out: Path | None, name: str = "") -> int:
    """Writes the whole report and returns the exit code."""
    from qosweb.analytics.report.json_report import as_json, write_report

    if out:
        write_report(findings, out)
    if arguments.json:
        print(json.dumps(({"name": name} if name else {}) | as_json(findings)))
    elif out:
        print(f"full report: {out / 'report.html'}")
    return exit_code(findings, strict=arguments.strict)


def exit_code(findings: Findings, *, strict: bool) -> int:
    if findings.outcome == VIOLATED:
        return EXIT_VIOLATED
    return EXIT_UNTESTED if findings.outcome == NOT_TESTED and strict else EXIT_HELD


def _sources(arguments: argparse.Namespace) -> sources.Sources:
    """The logs to read. Raises UsageError for logs that cannot be read with these options."""
    if not arguments.follow:
        return sources.find(arguments.logs, arguments.format)
    if not arguments.out:
        raise UsageError("--follow rewrites its report: name a folder for it with --out")
    if arguments.format not in (None, "json") or arguments.keep_lines:
        raise UsageError("--follow reads JSON lines only: it cannot be combined with --format or --keep-lines")
    sources.check_growing(arguments.logs)
    return sources.Sources(json=tuple(str(path) for path in sources.growing(arguments.logs)))


def _once(
    spark: SparkSession,
    request: AnalysisRequest,
    arguments: argparse.Namespace,
    out: Path | None,
    progress: StepProgress,
) -> Findings:
    from qosweb.analytics.analysis import analyse
    from qosweb.analytics.report.parquet_export import export_lines, export_tables
    from qosweb.analytics.report.terminal import show

    bad_folder = str(out / "bad") if out else None
    findings = analyse(
        spark,
        request,
        progress.show_step,
        bad_folder,
        on_findings=lambda verdict: None if arguments.json else show(verdict),
    )
    if out:
        progress.show_step("writing tables")
        export_tables(spark, findings, out)
        if arguments.keep_lines:
            export_lines(spark, request.sources, out)
    return findings


def _follow(
    spark: SparkSession,
    request: AnalysisRequest,
    arguments: argparse.Namespace,
    out: Path | None,
    progress: StepProgress,
) -> Findings:
    from qosweb.analytics.follow.follower import follow
    from qosweb.analytics.report.terminal import show

    assert out is not None
    every_s, late_s = _pace(arguments)
    checkpoint = _checkpoint(arguments, out)
    findings = follow(
        spark, request, arguments.logs, out, checkpoint, every_s=every_s, late_s=late_s, show_step=progress.show_step
    )
    if not arguments.json:
        show(findings)
    return findings


def _checkpoint(arguments: argparse.Namespace, out: Path) -> Path:
    return Path(arguments.checkpoint).absolute() if arguments.checkpoint else out / "checkpoint"


def _pace(arguments: argparse.Namespace) -> tuple[float, float]:
    """The interval between reads and the allowed lateness of a line, in seconds."""
    every_s = read_option(parse_duration_s, arguments.every, "--every")
    if not EVERY_MIN_S <= every_s <= EVERY_MAX_S:
        raise UsageError(f"--every {arguments.every}: must be from {EVERY_MIN_S:g} s to {EVERY_MAX_S:g} s")
    return every_s, read_option(parse_duration_s, arguments.late, "--late")


def settings(master: str, size: int | None) -> dict[str, str]:
    """Spark settings for logs of ``size`` bytes (None: unknown). Few partitions, because the first sums are small."""
    conf = {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "2g",
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
        "spark.driver.extraJavaOptions": _JVM,
        "spark.executor.extraJavaOptions": _JVM,
    }
    if not master.startswith("local"):
        conf["spark.executor.memory"] = "1g"
    if size is not None and size < sources.SMALL:
        conf |= {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraJavaOptions": _SHORT_LIVED_JVM,
            "spark.executor.extraJavaOptions": _SHORT_LIVED_JVM,
        }
    return conf


def limits_of(arguments: argparse.Namespace) -> AnalysisLimits:
    """Parses the options of the verdicts. Raises UsageError that names the option."""
    window_s = _whole_seconds(arguments.window, "--window")
    slot_s = _whole_seconds(arguments.slot, "--slot")
    if window_s % slot_s or window_s > WINDOW_MAX_S:
        raise UsageError(f"--window {arguments.window}: must be a multiple of --slot {arguments.slot}, at most a day")
    capacity = arguments.capacity
    return AnalysisLimits(
        window_s=window_s,
        slot_s=slot_s,
        tolerance=_share(arguments.tolerance, "--tolerance"),
        run_tolerance=_share(arguments.run_tolerance, "--run-tolerance"),
        rate_tolerance=_share(arguments.rate_tolerance, "--rate-tolerance"),
        slack_ms=read_option(parse_duration_s, arguments.slack, "--slack") * 1000,
        slow_part=_share(arguments.slow, "--slow"),
        waited_ms=read_option(parse_duration_s, arguments.waited, "--waited") * 1000,
        request_cost=read_option(parse_size, arguments.request_cost, "--request-cost"),
        capacity_bps=read_literal(values.rate_bps, capacity, "--capacity") if capacity else None,
        skip_s=int(read_option(parse_duration_s, arguments.skip, "--skip")),
    )


def _share(text: str, option: str) -> float:
    return read_literal(values.share_ppm, text, option) / 1e6


def _whole_seconds(text: str, option: str) -> int:
    seconds = read_option(parse_duration_s, text, option)
    if seconds < 1 or seconds != int(seconds):
        raise UsageError(f"{option} {text}: must be whole seconds, such as 10s")
    return int(seconds)


def _folder(name: str) -> Path:
    path = Path(name)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {name}: {error.strerror}") from None
    return path.absolute()
