"""``python -m cluster node``: a member with a replicated counter, for tests and trials.

Each line of standard input is an entry to broadcast. Events are printed on standard output, one JSON object per line.
With `--load` the node submits generated entries, a given number at a time. `--confirmed` writes a line for each
confirmed one: its position, the time, its name, and the SHA-256 of its body, which the order log has at that position.
With `--notes` the node also has a set of notes, shared by the interim service: `.note TEXT` adds one, in any view.
With `--queries` it has the data service: `.ask INDEX TEXT` asks for the counter, as a client that has seen that index.
With `--reports` it reports values: `.publish ITEM VALUE` makes VALUE the current one of ITEM, and `.count S` counts up
an item every S seconds.
Below: group.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import time
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import REGISTRY

from cluster.reports.publisher import ReportsFull
from cluster.runtime.api.data_service import DataQueries
from cluster.runtime.api.group import Full, Group, InDoubt, NotDelivered
from cluster.runtime.api.interim_service import InterimService
from cluster.runtime.api.reports import Reports
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.commands.shared_notes import SharedNotes
from cluster.runtime.observe.metrics import GroupCollector

if TYPE_CHECKING:
    import argparse
    from typing import BinaryIO

    from cluster.layer import Delivered
    from cluster.runtime.api.options import Options

TELL_EVERY_S = 0.1
MERGES_EVERY_S = 0.002
LINE_LEN_MAX = 64 * 1024
STOP = ".stop"  # lines of standard input that are commands, not entries
LEAVE = ".leave"
NOTE = ".note "  # an operation of the interim service
ASK = ".ask "  # a query of the data service: the index that the client has seen, and a text
PUBLISH = ".publish "  # an item and its value, to be reported
COUNT = ".count "  # seconds between two values of the item "count"
LOAD = ".load "  # entries to keep in flight, and the pause after each in seconds (default 0)

_encode = msgspec.json.Encoder().encode


def print_event(event: str, **fields: object) -> None:
    sys.stdout.buffer.write(_encode({"event": event, "at": time.monotonic(), **fields}) + b"\n")
    sys.stdout.buffer.flush()


class GeneratedLoad:
    """Keeps a given number of unique entries in flight. Confirmed ones go to a file."""

    def __init__(self, group: Group, size: int, confirmed: BinaryIO | None) -> None:
        self.outstanding = 0
        self.pause_s = 0.0  # between the outcome of an entry and the next entry
        self._group = group
        self._size = size
        self._confirmed = confirmed
        self._under_way = 0
        self._count = 0

    def fill(self) -> None:
        while self._under_way < self.outstanding:
            self._count += 1
            body = b"%s/%d/%d " % (str(self._group.me).encode(), self._group.driver.process.boot, self._count)
            body += b"x" * (self._size - len(body))
            try:
                self._group.broadcast_nowait(body, lambda end, body=body: self._ended(end, body))  # type: ignore[misc]
            except (Full, NotDelivered):
                return
            self._under_way += 1

    def _ended(self, end: Delivered, body: bytes) -> None:
        self._under_way -= 1
        if end.delivered and self._confirmed is not None:
            name, digest = body.partition(b" ")[0], sha256(body).hexdigest().encode()
            self._confirmed.write(b"%d %.6f %s %s\n" % (end.position, time.monotonic(), name, digest))
        if self.pause_s:
            asyncio.get_running_loop().call_later(self.pause_s, self.fill)
        else:
            self.fill()


async def run(options: Options, arguments: argparse.Namespace) -> int:
    machine = CounterMachine()
    notes = InterimService(SharedNotes()) if arguments.notes else None
    begin = Group.found if arguments.found else Group.join
    queries = DataQueries(machine) if arguments.queries else None
    reports = Reports() if arguments.reports else None
    group = await begin(options, machine, interim=notes, queries=queries, reports=reports)
    if arguments.metrics:
        REGISTRY.register(GroupCollector(group))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    confirmed = arguments.confirmed.open("ab", buffering=0) if arguments.confirmed else None
    load = GeneratedLoad(group, arguments.size, confirmed)
    load.outstanding = arguments.load
    print_event("listening", name=str(group.me), addresses=group.addresses)
    tasks = [
        loop.create_task(_print_views(group)),
        loop.create_task(_read_lines(group, load, stop, queries)),
        loop.create_task(_print_status(group, machine, load)),
        loop.create_task(_until_stopped(group, stop)),
    ]
    if notes is not None:
        tasks.append(loop.create_task(_print_merges(notes)))
    load.fill()
    await stop.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await group.close()
    print_event("closed", error=str(group.error or ""), **_status(group, machine))
    if confirmed is not None:
        confirmed.close()
    return 0 if group.error is None else 1


def _status(group: Group, machine: CounterMachine) -> dict[str, object]:
    return {
        "count": machine.count,
        "state": machine.chain.hex(),
        "position": group.driver.process.total_order.next_report,
        "primary": [str(member) for member in group.primary.members] if group.primary is not None else None,
        "delivered": group.driver.submissions.delivered,
        "outstanding": group.driver.submissions.outstanding,
        "recoveries": [mark.at for mark in group.recoveries],
        **(_notes_status(group.interim) if group.interim is not None else {}),
        **(_reports_status(group.reports) if group.reports is not None else {}),
    }


def _reports_status(reports: Reports) -> dict[str, object]:
    return {
        "reports": {
            name: {item: found.value.decode(errors="replace") for item, found in values.items()}
            for name, values in reports.current.items()
        },
        "reports_age_s": {
            name: round(min(found.age_s for found in values.values()), 3) for name, values in reports.current.items()
        },
        "reports_purged": reports.purged,
        "reports_skipped": {name: peer.skipped for name, peer in reports.peers().items()},
    }


def _notes_status(notes: InterimService) -> dict[str, object]:
    return {
        "notes": len(notes.shared.notes) if isinstance(notes.shared, SharedNotes) else 0,
        "notes_digest": notes.shared.digest(),
        "notes_members": sorted(member.name for member in notes.members),
        "merging": notes.is_merging,
    }


async def _print_merges(notes: InterimService) -> None:
    """Print when a merge begins and when it ends."""
    was = notes.is_merging
    while True:
        await asyncio.sleep(MERGES_EVERY_S)
        if notes.is_merging != was:
            was = not was
            print_event("merge", begins=was, members=[member.name for member in notes.view])


async def _note(notes: InterimService, text: str) -> None:
    try:
        print_event("noted", note=text, count=await notes.request(text.encode()))
    except (NotDelivered, InDoubt, Full) as error:
        print_event("refused", note=text, reason=str(error))


def _publish(reports: Reports, text: str) -> None:
    item, _, value = text.partition(" ")
    try:
        reports.publish(item, value.encode())
    except (NotDelivered, ReportsFull, ValueError) as error:
        print_event("refused", item=item, reason=str(error))


async def _count(reports: Reports, every_s: float) -> None:
    for number in itertools.count(1):
        _publish(reports, f"count {number}")
        await asyncio.sleep(every_s)


async def _until_stopped(group: Group, stop: asyncio.Event) -> None:
    await group.stopped.wait()
    stop.set()


async def _print_views(group: Group) -> None:
    async for view in group.views():
        members = [str(member) for member in view.members] if view is not None else None
        print_event("primary", view=str(view.id) if view is not None else None, members=members)


async def _print_status(group: Group, machine: CounterMachine, load: GeneratedLoad) -> None:
    while True:
        print_event("status", **_status(group, machine))
        load.fill()
        await asyncio.sleep(TELL_EVERY_S)


async def _ask(queries: DataQueries, text: str) -> None:
    seen, _, body = text.partition(" ")
    try:
        reply = await queries.ask(body.encode(), int(seen))
        print_event("answered", query=body, answer=reply.answer.decode(), index=reply.index, error=reply.error)
    except (NotDelivered, ValueError) as error:
        print_event("refused", query=text, reason=str(error))


async def _read_lines(group: Group, load: GeneratedLoad, stop: asyncio.Event, queries: DataQueries | None) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_LEN_MAX)
    running: set[asyncio.Task[None]] = set()  # a note or query need not wait for the one before
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        text = line.decode(errors="replace").strip()
        if text == STOP:
            stop.set()
        elif text == LEAVE:
            await group.leave()
            stop.set()
        elif text.startswith(NOTE) and group.interim is not None:
            running.add(task := loop.create_task(_note(group.interim, text.removeprefix(NOTE))))
            task.add_done_callback(running.discard)
        elif text.startswith(ASK) and queries is not None:
            running.add(task := loop.create_task(_ask(queries, text.removeprefix(ASK))))
            task.add_done_callback(running.discard)
        elif text.startswith(PUBLISH) and group.reports is not None:
            _publish(group.reports, text.removeprefix(PUBLISH))
        elif text.startswith(COUNT) and group.reports is not None:
            running.add(loop.create_task(_count(group.reports, float(text.removeprefix(COUNT)))))
        elif text.startswith(LOAD):
            outstanding, _, pause_s = text.removeprefix(LOAD).partition(" ")
            load.outstanding, load.pause_s = int(outstanding), float(pause_s or 0)
            load.fill()
        elif text:
            try:
                print_event("confirmed", entry=text, number=await group.broadcast(text.encode()))
            except NotDelivered as error:
                print_event("refused", entry=text, reason=str(error))
