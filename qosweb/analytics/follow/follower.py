"""``qosweb analyze --follow``: rewrites the report whenever a window closes, until Ctrl-C.

The checkpoint holds all state that a restart needs. One process at a time may use it, and the options that determine
the sums must not change.
Neighbours: ``log_tail`` reads the logs, ``stream`` aggregates and judges them, ``command`` parses the options.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qosweb.analytics.follow.checkpoint import check_fixed, locked
from qosweb.analytics.follow.log_tail import LogTail
from qosweb.analytics.follow.stream import Stream
from qosweb.analytics.report.json_report import write_report
from qosweb.analytics.report.terminal import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read.rows import AnalysisRequest


def follow(
    spark: SparkSession,
    request: AnalysisRequest,
    names: list[str],
    out: Path,
    checkpoint: Path,
    *,
    every_s: float,
    late_s: float,
    show_step: Callable[[str], None],
) -> Findings:
    """Follows the logs until SIGINT or SIGTERM. Returns the last findings, including windows that are still open."""
    published: list[Findings] = []
    with locked(checkpoint), _signals() as stop:
        check_fixed(checkpoint, request)
        logs = LogTail(names, checkpoint)

        def publish(findings: Findings) -> None:
            write_report(findings, out, refresh_s=None if stop.is_set() else max(1, round(every_s)))
            published[:] = [findings]
            show_step(f"{findings.outcome}: {findings.lines} lines, judged until {clock(findings.end_s)} UTC")

        stream = Stream(spark, request, logs, checkpoint, late_s, publish, out / "bad")
        show_step("following; Ctrl-C ends it")
        stream.run(stop, every_s)
    return published[-1]


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that Spark can finish its current work."""
    stop = threading.Event()

    def on_signal(_: int, __: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
