"""Measures reports between five real members, of which one is slow or stopped: the rate that the others receive.

The producer offers a fixed rate of updates with the item frequencies of the stock-trading table, and waits when it is
refused. Every member takes a fixed time for each report, which costs no processor time. The load travels as semantic
reports, as plain reliable reports with the same buffers, or through the total order.
Above: `cluster.runtime.commands.experiment`.  Below: group, reports.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import secrets
import signal
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.reports.bottleneck import draw_item
from cluster.reports.publisher import ReportsFull
from cluster.reports.settings import ReportSettings
from cluster.runtime.api.group import Full, Group
from cluster.runtime.api.options import Bounds, Options
from cluster.runtime.api.reports import Reports
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    from cluster.names import ProcessId, View

NAMES = "abcde"  # the first produces, the last is disturbed
RATE_PER_S = 500.0  # offered
TAKE_S = 0.001  # for each report; a slow member takes ten times as long
SLOW_FACTOR = 10
BUFFER_LEN = 1_024  # of each peer; more than there are items
STOPPED_S, PERIOD_S = 2.0, 10.0
BIN_S = 0.5
CREDIT_S = 0.25  # timers of a busy machine are late
QUEUE_LEN = 64  # reports that wait for a reader
WARM_UP_S = 4.0
START_S = 60.0
SEMANTIC, RELIABLE, TOTAL_ORDER = "semantic reports", "plain reliable reports", "total order"
NONE, SLOW, STOPPED = "none", "slow", "stopped"


class MemberTask(msgspec.Struct, frozen=True):
    """Job of one process."""

    name: str
    key: bytes
    contacts: tuple[str, ...]
    transport: str
    take_s: float
    lasts_s: float


class ProcessRun(msgspec.Struct, frozen=True):
    """Deliveries at the undisturbed receivers."""

    transport: str
    disturbance: str
    rates_per_s: tuple[float, ...]  # in each half second, of each of them

    @property
    def median_per_s(self) -> float:
        return median(self.rates_per_s)

    @property
    def worst_tenth_per_s(self) -> float:
        """The rate that a tenth of the half seconds do not reach."""
        return sorted(self.rates_per_s)[len(self.rates_per_s) // 10]


def run_case(transport: str, disturbance: str, lasts_s: float) -> ProcessRun:
    """Starts five processes, applies the load and the disturbance, and collects what the others delivered."""
    spawn = multiprocessing.get_context("spawn")
    key = secrets.token_bytes(32)
    started: list[tuple[SpawnProcess, Connection]] = []
    contacts: tuple[str, ...] = ()
    try:
        for name in NAMES:
            is_slow = disturbance == SLOW and name == NAMES[-1]
            task = MemberTask(name, key, contacts, transport, TAKE_S * (SLOW_FACTOR if is_slow else 1), lasts_s)
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=run_member, args=(task, theirs), daemon=True)
            process.start()
            theirs.close()
            started.append((process, ours))
            if not contacts:
                contacts = _receive(ours)
        for _, pipe in started:
            if _receive(pipe) != "ready":
                raise RuntimeError("a member did not become ready")
        for _, pipe in started:
            pipe.send("go")
        if disturbance == STOPPED:
            _stop_now_and_then(started[-1][0], time.monotonic() + WARM_UP_S + lasts_s)
        found = [_receive(pipe, WARM_UP_S + lasts_s + START_S) for _, pipe in started[1:-1]]
        return ProcessRun(transport, disturbance, tuple(rate for rates in found for rate in rates))
    finally:
        for process, pipe in started:
            pipe.close()
            process.kill()
            process.join(START_S)


def _receive(pipe: Connection, within_s: float = START_S) -> Any:
    if not pipe.poll(within_s):
        raise RuntimeError(f"a member did not answer within {within_s:g} s")
    return pipe.recv()


def _stop_now_and_then(process: SpawnProcess, until: float) -> None:
    assert process.pid is not None
    time.sleep(WARM_UP_S)
    while time.monotonic() < until:
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(max(0.0, min(PERIOD_S - STOPPED_S, until - time.monotonic())))


# ---- in each process


def run_member(task: MemberTask, pipe: Connection) -> None:
    asyncio.run(_Member(task, pipe).run())


class _Member:
    def __init__(self, task: MemberTask, pipe: Connection) -> None:
        self._task = task
        self._pipe = pipe
        self._delivered = 0
        self._reports: Reports | None = None
        if task.transport != TOTAL_ORDER:
            settings = ReportSettings(
                semantic=task.transport == SEMANTIC, window_len=64, buffer_len_max=BUFFER_LEN, queue_len_max=QUEUE_LEN,
                pending_len_max=BUFFER_LEN if task.transport == SEMANTIC else 0,
            )  # fmt: skip
            self._reports = Reports(settings)

    async def run(self) -> None:
        task, loop = self._task, asyncio.get_running_loop()
        options = Options(
            name=task.name, key=task.key, listen=("127.0.0.1:0",), contacts=task.contacts,
            bounds=Bounds(outstanding_len_max=BUFFER_LEN),
        )  # fmt: skip
        machine = _SlowMachine(self) if self._reports is None else None
        is_first = not task.contacts
        begin = Group.found if is_first else Group.join
        group = await begin(options, machine, reports=self._reports)
        if is_first:
            self._pipe.send(group.addresses)
        await group.primary_of(len(NAMES))
        reader = loop.create_task(self._read(self._reports)) if self._reports is not None else None
        self._pipe.send("ready")
        await asyncio.to_thread(self._pipe.recv)
        tasks = [] if reader is None else [reader]
        if is_first:
            tasks.append(loop.create_task(self._produce(group)))
        self._pipe.send(tuple(await self._count()))
        await asyncio.gather(*tasks)  # the parent ends all processes at once
        await group.stopped.wait()

    async def _count(self) -> list[float]:
        await asyncio.sleep(WARM_UP_S)
        rates, before, at = [], self._delivered, time.monotonic()
        for _ in range(round(self._task.lasts_s / BIN_S)):
            await asyncio.sleep(BIN_S)
            now = time.monotonic()
            rates.append((self._delivered - before) / (now - at))
            before, at = self._delivered, now
        return rates

    async def _read(self, reports: Reports) -> None:
        """Takes reports, each for a while. A reader that was late, or idle, makes up for CREDIT_S of it."""
        free_at = time.monotonic()
        async for _ in reports.changes():
            self._delivered += 1
            free_at = max(free_at, time.monotonic() - CREDIT_S) + self._task.take_s
            if free_at > time.monotonic():
                await asyncio.sleep(free_at - time.monotonic())

    def take(self) -> None:
        """The same for the total order: a state machine applies one entry after the other."""
        self._delivered += 1
        time.sleep(self._task.take_s)

    async def _produce(self, group: Group) -> None:
        """Publishes at the offered rate. A refused report is offered again: the producer is held up."""
        chance, due = SeededRandom(1), time.monotonic()
        while True:
            due = max(due + 1 / RATE_PER_S, time.monotonic() - 0.1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            item = draw_item(chance)
            while not self._publish(group, item):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def _publish(self, group: Group, item: str) -> bool:
        try:
            if self._reports is not None:
                self._reports.publish(item, b"%.6f" % time.time())
            else:
                group.broadcast_nowait(item.encode())
        except (ReportsFull, Full):
            return False
        return True


class _SlowMachine:
    """A state machine without state that takes its time."""

    def __init__(self, member: _Member) -> None:
        self._member = member

    def apply(self, position: int, origin: ProcessId, body: bytes) -> None:  # noqa: ARG002
        self._member.take()

    def view_changed(self, position: int, view: View) -> None:
        pass

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None:
        pass


def run_all(lasts_s: float, write: Callable[[str], None]) -> list[ProcessRun]:
    runs = []
    for transport in (SEMANTIC, RELIABLE, TOTAL_ORDER):
        for disturbance in (NONE, SLOW, STOPPED):
            runs.append(run_case(transport, disturbance, lasts_s))
            write(f"{transport}, disturbance {disturbance}: median {runs[-1].median_per_s:.0f} reports/s at the others")
    return runs
