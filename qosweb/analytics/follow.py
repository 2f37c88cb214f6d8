"""``qosweb analyze --follow``: the report is written anew whenever a window closes, until Ctrl-C.

The checkpoint holds all that a restart needs. One process at a time may have it, and what lines are added up by has to
stay as it was.
Neighbours: ``tail`` reads the logs, ``stream`` adds them up and judges, ``command`` has the options.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from qosweb.analytics.page import page
from qosweb.analytics.report import as_json
from qosweb.analytics.stream import Stream
from qosweb.analytics.tail import Tail
from qosweb.analytics.terminal import clock
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from pyspark.sql import SparkSession

    from qosweb.analytics.conclusion import Findings, Wanted


class Fixed(msgspec.Struct):
    """What the sums of a checkpoint were made with. Named like the options."""

    window: int
    slot: int
    waited: float
    slack: float
    response: str
    spec: str


def follow(
    spark: SparkSession,
    wanted: Wanted,
    names: list[str],
    out: Path,
    checkpoint: Path,
    *,
    every_s: float,
    late_s: float,
    say: Callable[[str], None],
) -> Findings:
    """Until SIGINT or SIGTERM. Returns the last findings, with windows that were still open."""
    published: list[Findings] = []
    with locked(checkpoint), _signals() as stop:
        check_fixed(checkpoint, wanted)
        logs = Tail(names, checkpoint)

        def publish(findings: Findings) -> None:
            write_report(findings, out, refresh_s=None if stop.is_set() else max(1, round(every_s)))
            published[:] = [findings]
            say(f"{findings.outcome}: {findings.lines} lines, judged until {clock(findings.end_s)} UTC")

        stream = Stream(spark, wanted, logs, checkpoint, late_s, publish, out / "bad")
        say("following; Ctrl-C ends it")
        stream.run(stop, every_s)
    return published[-1]


def write_report(findings: Findings, out: Path, *, refresh_s: int | None = None) -> None:
    """Whoever reads them meanwhile has the old ones or the new ones."""
    texts = {
        "report.json": json.dumps(as_json(findings), indent=1) + "\n",
        "report.html": page(findings, refresh_s=refresh_s),
    }
    for name, text in texts.items():
        new = out / f".{name}.new"
        try:
            new.write_text(text, "utf-8")
            new.replace(out / name)
        except OSError as error:
            raise UsageError(f"--out: {out / name}: {error.strerror}") from None


@contextmanager
def locked(checkpoint: Path) -> Iterator[None]:
    """Raises UsageError if another process follows with it."""
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        file = (checkpoint / "lock").open("w")
    except OSError as error:
        raise UsageError(f"--checkpoint {checkpoint}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"--checkpoint {checkpoint}: another process uses it") from None
        yield


def check_fixed(checkpoint: Path, wanted: Wanted) -> None:
    """Raises UsageError if the sums in it were made with other options."""
    limits, file = wanted.limits, checkpoint / "options.json"
    spec = hashlib.sha256(wanted.spec.text.encode()).hexdigest()[:16] if wanted.spec else ""
    now = Fixed(limits.window_s, limits.slot_s, limits.waited_ms, limits.slack_ms, wanted.response, spec)
    try:
        before = msgspec.json.decode(file.read_bytes(), type=Fixed)
    except FileNotFoundError:
        file.write_bytes(msgspec.json.encode(now))
        return
    except msgspec.MsgspecError:
        raise UsageError(f"{file}: not what was written there; give --checkpoint a new folder") from None
    for name in Fixed.__struct_fields__:
        if getattr(before, name) != getattr(now, name):
            raise UsageError(
                f"--checkpoint {checkpoint}: was begun with another --{name}; give the same, or a new folder"
            )


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Set by Ctrl-C and SIGTERM; Spark goes on with what it does."""
    stop = threading.Event()

    def told(_: int, __: FrameType | None) -> None:
        stop.set()

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
