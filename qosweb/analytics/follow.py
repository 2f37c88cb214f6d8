"""``qosweb analyze --follow``: analyses growing logs again whenever windows have closed, until Ctrl-C.

A window is closed when it ended ``--late`` ago by the clock: lines of later requests are left out of a report. No state
is kept between reports, so a restart, a late line or a rotated log cannot make a line count twice or not at all. A
report costs as much as an analysis of the logs; an idle site costs nothing.
Neighbours: ``command`` parses the options and makes the last report, with all lines.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from qosweb.analytics.analysis import analyse
from qosweb.analytics.errors import NoRequestsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings
    from qosweb.analytics.read import sources
    from qosweb.analytics.read.rows import AnalysisRequest


def follow(
    spark: SparkSession,
    request: AnalysisRequest,
    find_sources: Callable[[], sources.Sources],
    publish: Callable[[Findings], None],
    stop: threading.Event,
    *,
    every_s: float,
    late_s: float,
    now: Callable[[], float] = time.time,
) -> None:
    """Calls ``publish`` with the findings of all closed windows whenever there are new ones, until ``stop`` is set."""
    window_s, judged_s = request.limits.window_s, 0
    while not stop.wait(every_s):
        closed_s = math.floor((now() - late_s) / window_s) * window_s
        try:
            found = find_sources()
            if closed_s > judged_s and _last_write_s(found) >= judged_s:
                findings = analyse_if_unchanged(spark, replace(request, sources=found, before_s=closed_s))
                if findings is not None:
                    publish(findings)
                    judged_s = closed_s
        except NoRequestsError:
            continue


def analyse_if_unchanged(spark: SparkSession, request: AnalysisRequest) -> Findings | None:
    """The findings; None if a log was rotated meanwhile, so that lines may have been read twice or not at all."""
    before = _inodes(request.sources)
    try:
        findings = analyse(spark, request)
    except PySparkException:
        if _inodes(request.sources) == before:
            raise
        return None
    return findings if _inodes(request.sources) == before else None


def _local(found: sources.Sources) -> list[Path]:
    return [Path(name) for kind in found for name in kind if "://" not in name]


def _inodes(found: sources.Sources) -> list[int | None]:
    return [path.stat().st_ino if path.exists() else None for path in _local(found)]


def _last_write_s(found: sources.Sources) -> float:
    """Infinite if only Spark can see some of the files."""
    local = _local(found)
    if len(local) < sum(map(len, found)):
        return math.inf
    return max((path.stat().st_mtime for path in local if path.exists()), default=0.0)


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
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
