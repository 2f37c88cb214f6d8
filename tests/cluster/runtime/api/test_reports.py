"""`cluster.Reports` as a library: values, newcomers, slow readers, bounds, restarts; in one loop, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

import cluster
from cluster import Group, NotDelivered, Options, Reports, ReportSettings, ReportsFull
from cluster.runtime.net.handshake import REPORTS
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = b"k" * 32


def options(process: str, *contacts: str) -> Options:
    return Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts)


class Members:
    """Groups with reports in one loop."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.group: dict[str, Group] = {}
        self.reports: dict[str, Reports] = {}

    async def start(self, names: str, settings: ReportSettings | None = None) -> None:
        for name in names:
            self.reports[name] = reports = Reports(settings)
            if self.group:
                first = next(iter(self.group.values()))
                group = await Group.join(options(name, *first.addresses), reports=reports)
            else:
                group = await Group.found(options(name), reports=reports)
            self.group[name] = await self.stack.enter_async_context(group)
        for group in self.group.values():
            await group.primary_of(len(self.group))

    def seen(self, at: str, sender: str) -> dict[str, bytes]:
        return {item: found.value for item, found in self.reports[at].current.get(sender, {}).items()}

    async def all_see(self, sender: str, values: dict[str, bytes]) -> None:
        await eventually(lambda: all(self.seen(at, sender) == values for at in self.reports))


def story(tell: Callable[[Members], object]) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            await tell(Members(stack))  # type: ignore[misc]

    run(play)


def test_the_library_exports_reports() -> None:
    assert cluster.Reports is Reports
    assert {"ReportSettings", "ReportsFull", "ReportedValue", "ReportChange", "PeerReports"} <= set(cluster.__all__)


def test_values_reach_all_members_and_a_newcomer_gets_them_all() -> None:
    async def tell(members: Members) -> None:
        await members.start("ab")
        for number in range(100):
            members.reports["a"].publish(f"item {number % 4}", b"%d" % number)
        members.reports["b"].publish("load", b"0.5")
        values = {f"item {number % 4}": b"%d" % number for number in range(96, 100)}
        await members.all_see("a", values)
        await members.start("c")
        await members.all_see("a", values)
        await members.all_see("b", {"load": b"0.5"})
        assert 0 <= members.reports["c"].current["b"]["load"].age_s < 60
        figures = members.reports["c"].peers()
        assert sorted(figures) == ["a", "b"]
        assert figures["a"].connected
        await eventually(lambda: members.reports["a"].peers()["c"].unacked_len == 0)

    story(tell)


def test_a_reader_that_does_not_read_stops_nobody() -> None:
    """c never takes a change. a publishes 5,000 values; b gets the last ones, and c too once it reads."""

    async def tell(members: Members) -> None:
        await members.start("abc", ReportSettings(window_len=4, buffer_len_max=64, queue_len_max=8, pending_len_max=64))
        changes = members.reports["c"].changes()
        members.reports["a"].publish("item 0", b"first")
        assert (await anext(changes)).item == "item 0"
        for number in range(5_000):
            members.reports["a"].publish(f"item {number % 5}", b"%d" % number)
            if number % 50 == 0:
                await asyncio.sleep(0)
        last = {f"item {number % 5}": b"%d" % number for number in range(4_995, 5_000)}
        await eventually(lambda: members.seen("b", "a") == last)
        assert members.reports["a"].purged > 1_000
        taken = 0
        while members.seen("c", "a") != last:
            await anext(changes)
            taken += 1
        assert taken < 500
        await changes.aclose()

    story(tell)


def test_a_bound_is_reported_and_names_the_slow_member() -> None:
    async def tell(members: Members) -> None:
        await members.start("ab", ReportSettings(window_len=2, buffer_len_max=4, queue_len_max=2, pending_len_max=3))
        changes = members.reports["b"].changes()
        members.reports["a"].publish("begin", b"")
        await anext(changes)
        await eventually(lambda: members.reports["a"].peers()["b"].unacked_len == 0)

        async def publish() -> None:
            for number in range(100):
                members.reports["a"].publish(f"item {number}", b"")
                await asyncio.sleep(0.001)

        with pytest.raises(ReportsFull, match="b has not acknowledged 4 reports"):
            await publish()
        await changes.aclose()
        await eventually(lambda: "item 5" in members.seen("b", "a"))
        members.reports["a"].publish("item 0", b"again")

    story(tell)


def test_a_second_reader_is_refused() -> None:
    async def tell(members: Members) -> None:
        await members.start("a")
        reports = members.reports["a"]
        reports.publish("x", b"1")
        first = reports.changes()
        assert (await anext(first)).value == b"1"
        with pytest.raises(RuntimeError, match="have a reader"):
            await anext(reports.changes())
        await first.aclose()
        reports.publish("x", b"2")
        await eventually(lambda: members.seen("a", "a") == {"x": b"2"})

    story(tell)


def test_survivors_agree_on_the_last_values_of_a_member_that_is_gone() -> None:
    async def tell(members: Members) -> None:
        await members.start("abc")
        members.reports["c"].publish("x", b"1")
        await members.all_see("c", {"x": b"1"})
        await members.group.pop("c").close()
        with pytest.raises(NotDelivered, match="does not run"):
            members.reports.pop("c").publish("x", b"2")
        for group in members.group.values():
            await group.primary_of(2)
        members.reports["a"].publish("y", b"1")
        await members.all_see("a", {"y": b"1"})
        assert members.seen("a", "c") == members.seen("b", "c") == {"x": b"1"}
        await members.start("c")  # another life: nothing of the earlier one stays once it reports
        members.reports["c"].publish("z", b"1")
        await members.all_see("c", {"z": b"1"})

    story(tell)


def test_a_broken_stream_is_dialed_again_and_loses_nothing() -> None:
    async def tell(members: Members) -> None:
        await members.start("ab")
        for number in range(5):
            members.reports["a"].publish("x", b"%d" % number)
            await members.all_see("a", {"x": b"%d" % number})
            streams = members.group["b"].driver.transport.report_streams
            assert streams is not None
            for connection in list(streams.connections.values()):
                connection.abort()
        members.reports["b"].publish("y", b"1")
        await members.all_see("b", {"y": b"1"})
        assert members.group["a"].primary is not None

    story(tell)


def test_a_member_without_reports_is_no_hindrance_and_accepts_no_stream() -> None:
    async def tell(members: Members) -> None:
        await members.start("ab")
        plain = await Group.join(options("p", *members.group["a"].addresses))
        async with plain:
            await plain.primary_of(3)
            members.reports["a"].publish("x", b"1")
            await members.all_see("a", {"x": b"1"})
            assert not members.reports["a"].peers()["p"].connected
            assert REPORTS not in plain.driver.transport.services

    story(tell)


def test_an_invalid_frame_closes_the_stream_only() -> None:
    async def tell(members: Members) -> None:
        await members.start("ab")
        members.reports["a"].publish("x", b"1")
        await members.all_see("a", {"x": b"1"})
        streams = members.group["b"].driver.transport.report_streams
        assert streams is not None
        (connection,) = streams.connections.values()
        connection.put((b"\x00\x00\x00\x01\xc0",))
        connection.flush()
        await eventually(lambda: connection.is_closed)
        members.reports["a"].publish("x", b"2")
        await members.all_see("a", {"x": b"2"})
        assert members.group["a"].primary is not None

    story(tell)
