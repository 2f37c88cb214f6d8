"""Passive observers between the protocol layers of a process: log lines, metrics and the order log.

Each tap sits between two layers and forwards every call. Hot calls are forwarded without an extra step. Log lines about
views use the papers' vocabulary and end with structured fields: the view, its epoch and members, the transitional set,
and the time since the first start_change that led to it.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from cluster.entries import VIEW
from cluster.runtime.observe.line_file import end_torn_line
from cluster.runtime.observe.log_fields import fields, of_set, of_view

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.detector import DetectorListener
    from cluster.durable import Snapshotted
    from cluster.membership import ViewListener
    from cluster.names import ProcessId, View
    from cluster.run_log import Run
    from cluster.stack import Process, Taps
    from cluster.total_order import Above, TotalOrder
    from cluster.view_order import ViewOrder

log = logging.getLogger("cluster.views")


class Observer:
    """Observations of one process. `taps` wraps the layers of the observed process."""

    def __init__(self, order_log: Path | None = None) -> None:
        self.start_changes = 0
        self.views = 0  # views delivered by the end-point
        self.suspicions = 0  # processes that became silent
        self.ordered = 0  # entries delivered here, from all origins
        self.change_began: float | None = None
        self.change_s_sum = 0.0  # time from the first start_change to the view
        self.change_s_max = 0.0
        self.change_seen = time.monotonic()  # start of the change to the current view
        self._order_log = OrderLog(order_log) if order_log is not None else None
        self.taps: Taps = {
            "detector": lambda process, above: HearingTap(self, process, above),
            "membership": lambda _, above: ChangeTap(self, above),
            "endpoint": lambda _, above: ViewTap(self, above),
            "primary": lambda _, above: AttemptTap(self, above),
            "total_order": lambda _, above: OrderTap(self, above, self._order_log),
        }

    def close(self) -> None:
        if self._order_log is not None:
            self._order_log.close()

    def took_ms(self) -> str:
        """Milliseconds since the change to the current view began."""
        return f"{1e3 * (time.monotonic() - self.change_seen):.1f}"


class HearingTap:
    """Between the failure detector and the membership."""

    def __init__(self, watch: Observer, process: Process, above: DetectorListener) -> None:
        self._watch = watch
        self._process = process
        self._above = above
        self._before: tuple[ProcessId, ...] = process.detector.hears

    def hears_changed(self) -> None:
        hears = self._process.detector.hears
        gone = [peer for peer in self._before if peer not in hears]
        come = [peer for peer in hears if peer not in self._before]
        self._watch.suspicions += len(gone)
        self._before = hears
        shown = fields("hears", hears=of_set(hears), gone=of_set(gone), come=of_set(come))
        log.info("hears %s%s%s %s", names(hears), _listed(", no more: ", gone), _listed(", again: ", come), shown)
        self._above.hears_changed()


class ChangeTap:
    """Between the membership and the end-point."""

    def __init__(self, watch: Observer, endpoint: ViewListener) -> None:
        self._watch = watch
        self._endpoint = endpoint

    @property
    def current_view(self) -> View:
        return self._endpoint.current_view

    def start_change(self, cid: int, members: tuple[ProcessId, ...]) -> None:
        self._watch.start_changes += 1
        if self._watch.change_began is None:
            self._watch.change_began = time.monotonic()
        shown = fields("start_change", cid=cid, members=of_set(members))
        log.info("start_change(%d, %s) %s", cid, names(members), shown)
        self._endpoint.start_change(cid, members)

    def membership_view(self, view: View) -> None:
        log.info("mbrshp.view(%s) %s", view, fields("mbrshp.view", **of_view(view)))
        self._endpoint.membership_view(view)


class ViewTap:
    """Between the end-point and the view order."""

    def __init__(self, watch: Observer, order: ViewOrder) -> None:
        self._watch = watch
        self._order = order
        self.deliver = order.deliver
        self.block = order.block

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        watch = self._watch
        watch.views += 1
        now = time.monotonic()
        watch.change_seen = now if watch.change_began is None else watch.change_began
        took = now - watch.change_seen
        watch.change_began = None
        watch.change_s_sum += took
        watch.change_s_max = max(watch.change_s_max, took)
        shown = fields("view", **of_view(view), transitional=of_set(transitional), took_ms=f"{1e3 * took:.1f}")
        log.info("view(%s, T = %s) after %.1f ms %s", view, names(transitional), 1e3 * took, shown)
        self._order.view(view, transitional)


class AttemptTap:
    """Between the primary views and the total order."""

    def __init__(self, watch: Observer, total_order: TotalOrder) -> None:
        self._watch = watch
        self._total_order = total_order
        self.is_expected = total_order.is_expected
        self.receive = total_order.receive
        self.safe = total_order.safe
        self.primary_lost = total_order.primary_lost
        self.roomy = total_order.roomy

    def new_view(self, view: View) -> None:
        shown = fields("DVS-NEWVIEW", **of_view(view), took_ms=self._watch.took_ms())
        log.info("DVS-NEWVIEW(%s): attempted %s", view, shown)
        self._total_order.new_view(view)


class OrderTap:
    """Between the total order and the replica."""

    def __init__(self, watch: Observer, replica: Above, order_log: OrderLog | None) -> None:
        self._watch = watch
        self._deliver = replica.deliver
        self._replica = replica
        self._order_log = order_log
        self.labelled = replica.labelled
        self._primary: View | None = None  # the last established primary view

    def deliver(self, position: int, run: Run) -> None:
        self._watch.ordered += run.pack.count
        if self._order_log is not None:
            self._order_log.write(position, run)
        self._deliver(position, run)

    def restore(self, snapshot: Snapshotted) -> None:
        log.info("restored from a snapshot at position %d", snapshot.position)
        self._replica.restore(snapshot)

    def established(self, view: View) -> None:
        self._primary = view
        took_ms = self._watch.took_ms()
        # the total order registers a view in the step that establishes it
        log.info("DVS-REGISTER in %s %s", view, fields("DVS-REGISTER", **of_view(view), took_ms=took_ms))
        log.info("established(%s): primary %s", view, fields("established", **of_view(view), took_ms=took_ms))
        self._replica.established(view)

    def caught_up(self, view: View) -> None:
        log.info("caught up in %s %s", view, fields("caught_up", **of_view(view), took_ms=self._watch.took_ms()))
        self._replica.caught_up(view)

    def primary_lost(self) -> None:
        before, self._primary = self._primary, None
        shown = fields("primary_lost", **(of_view(before) if before is not None else {}))
        log.info("the primary view is over %s", shown)
        self._replica.primary_lost()


class OrderLine(msgspec.Struct, frozen=True):
    """One entry of the total order as delivered here. Equal at all members that delivered it."""

    i: int
    label: str
    origin: str
    view: str
    kind: str
    sha256: str


class OrderLog:
    """A file with one line per delivered entry. A restarted process repeats the lines of entries that it applies again.

    If the disk fails, lines are lost and the loss is logged. Nothing else is affected.
    """

    def __init__(self, path: Path) -> None:
        end_torn_line(path)
        self._file = path.open("ab", buffering=0)
        self._path = path
        self._lost = 0
        self._encode = msgspec.json.Encoder().encode

    def write(self, position: int, run: Run) -> None:
        lines = []
        for i, (label, entry) in enumerate(run.labelled(), position):
            view = f"{label.view_id.epoch}:{label.view_id.digest}"
            origin = "" if entry.kind == VIEW else str(label.origin)
            name = f"{view}/{label.seqno}@{label.origin}"
            lines.append(
                self._encode(OrderLine(i, name, origin, view, entry.kind, sha256(entry.body).hexdigest())) + b"\n"
            )
        self._write(b"".join(lines), len(lines))

    def _write(self, data: bytes, count: int) -> None:
        try:
            written = self._file.write(data)
            if written != len(data):  # remove the partial line
                self._file.truncate(self._file.tell() - (written or 0))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if not self._lost:
                log.error("cannot write the order log %s: %s; lines are lost until writes succeed", self._path, error)
            self._lost += count
        else:
            if self._lost:
                log.warning("the order log %s is written again; %d lines were lost", self._path, self._lost)
            self._lost = 0

    def close(self) -> None:
        self._file.close()


def names(processes: tuple[ProcessId, ...]) -> str:
    return "{" + " ".join(map(str, processes)) + "}"


def _listed(before: str, processes: list[ProcessId]) -> str:
    return before + " ".join(map(str, processes)) if processes else ""
