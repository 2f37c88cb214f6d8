"""`cluster.Group` as a library: found, join, broadcast, deliveries, views, leave; in one loop, over real sockets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client import CollectorRegistry, generate_latest

import cluster
from cluster import Group, NotDelivered, Options
from cluster.runtime.api.delivery_stream import Delivery, PrimaryView, Skipped
from cluster.runtime.api.group import Full, InDoubt
from cluster.runtime.api.options import RUNTIME_SETTINGS, Bounds
from cluster.runtime.commands.command_line import make_tls
from cluster.runtime.commands.counter_machine import CounterMachine
from cluster.runtime.disk.store_errors import DiskExists
from cluster.runtime.net.transport import CannotListen
from cluster.runtime.observe.metrics import GroupCollector
from cluster.runtime.submissions import SPLIT_FROM
from tests.cluster.runtime.loops import eventually, run
from tests.cluster.runtime.net.breaking_proxy import Proxy
from tests.support.tls import write_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cluster.layer import Delivered
    from cluster.names import ProcessId

KEY = b"k" * 32


def options(process: str, *contacts: str, **more: object) -> Options:
    return msgspec.structs.replace(
        Options(name=process, key=KEY, listen=("127.0.0.1:0",), contacts=contacts),
        **more,
    )


class BulkCounter(CounterMachine):
    """A machine that applies many entries in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[int] = []  # entries per call

    def apply_all(self, position: int, origin: ProcessId, bodies: Sequence[bytes]) -> Sequence[object]:
        self.runs.append(len(bodies))
        return [self.apply(at, origin, body) for at, body in enumerate(bodies, position)]


async def three(*machines: CounterMachine) -> tuple[Group, Group, Group]:
    a = await Group.found(options("a"), *machines[:1])
    b = await Group.join(options("b", a.addresses[0]), *machines[1:2])
    c = await Group.join(options("c", a.addresses[0]), *machines[2:3])
    for member in (a, b, c):
        await member.primary_of(3)
    return a, b, c


def test_all_members_deliver_the_same_entries() -> None:
    async def story() -> None:
        a, b, c = await three()
        async with a, b, c:
            await asyncio.gather(*(member.broadcast(b"%d" % i) for i in range(20) for member in (a, b, c)))
            seen = []
            for member in (a, b, c):
                found: list[Delivery] = []
                async for event in member.deliveries():
                    if isinstance(event, Delivery):
                        found.append(event)
                    if len(found) == 60:
                        break
                seen.append(found)
            assert seen[0] == seen[1] == seen[2]
            assert [event.body for event in seen[0] if event.origin == b.me] == [b"%d" % i for i in range(20)]

    run(story)


def test_bulk_apply_agrees_with_single_apply() -> None:
    """Also with a snapshot in the middle of a run, and checkpoints among the entries."""

    async def story() -> None:
        few = msgspec.structs.replace(RUNTIME_SETTINGS, snapshot_every=150)
        whole, single = BulkCounter(), CounterMachine()
        async with (
            await Group.found(options("a", settings=few), whole) as a,
            await Group.join(options("b", a.addresses[0], settings=few), single) as b,
        ):
            for member in (a, b):
                await member.primary_of(2)
            answers = [await asyncio.gather(*(member.broadcast(b"x") for _ in range(400))) for member in (a, b)]
            assert answers == [list(range(1, 401)), list(range(401, 801))]
            await eventually(lambda: whole.chain == single.chain)
            assert max(whole.runs) > 1

    run(story)


def test_a_state_machine_answers_the_caller() -> None:
    async def story() -> None:
        machines = CounterMachine(), CounterMachine(), CounterMachine()
        a, b, c = await three(*machines)
        async with a, b, c:
            assert sorted(await asyncio.gather(*(b.broadcast(b"x") for _ in range(5)))) == [1, 2, 3, 4, 5]  # type: ignore[type-var]
            ends: list[Delivered] = []
            c.broadcast_nowait(b"y", ends.append)
            await eventually(lambda: len(ends) == 1)
            assert ends[0].delivered
            assert ends[0].result == 6
            await eventually(lambda: len({machine.chain for machine in machines}) == 1)
            with pytest.raises(TypeError, match="go to its state machine"):
                a.deliveries()

    run(story)


def test_each_of_many_broadcasts_gets_its_own_outcome() -> None:
    """A few hundred entries leave as two batches: the others work on one while the next is made."""

    async def story() -> None:
        a, b, c = await three(CounterMachine(), CounterMachine(), CounterMachine())
        async with a, b, c:
            ends: list[Delivered] = []
            batches, count = b.driver.submissions.batches, 2 * SPLIT_FROM
            for _ in range(count):
                b.broadcast_nowait(b"x", ends.append)
            await eventually(lambda: len(ends) == count)
            assert b.driver.submissions.batches == batches + 2
            assert [end.result for end in ends] == list(range(1, count + 1))
            assert [end.ticket for end in ends] == sorted({end.ticket for end in ends})
            assert [end.position for end in ends] == sorted({end.position for end in ends})
            assert (
                b.driver.submissions.outstanding,
                b.driver.submissions.outstanding_bytes,
                b.driver.submissions.handles,
            ) == (0, 0, {})
            assert b.driver.submissions.delivered == count

    run(story)


def test_ipv6_and_ipv4_in_one_group() -> None:
    async def story() -> None:
        try:
            a = await Group.found(options("a", listen=("[::1]:0", "127.0.0.1:0")))
        except CannotListen as error:
            pytest.skip(f"no IPv6 here: {error}")
        b = await Group.join(options("b", a.addresses[0], listen=("[::1]:0",)))
        c = await Group.join(options("c", a.addresses[1], listen=("[::1]:0",)))
        async with a, b, c:
            assert a.addresses[0].startswith("[::1]:")
            await c.primary_of(3)

    run(story)


def test_simultaneous_dials_leave_one_connection() -> None:
    async def story() -> None:
        a = await Group.found(options("a"))
        async with a, await Group.join(options("b", *a.addresses)) as b:
            a.driver.transport._dialing.contact(b.addresses[0])
            await a.primary_of(2)
            await b.broadcast(b"x")
            await eventually(lambda: not a.driver.transport._dialing._dials and not b.driver.transport._strangers)
            assert len(a.driver.transport.connections) == len(b.driver.transport.connections) == 1

    run(story)


def test_a_connection_that_breaks_in_the_middle_of_a_frame_loses_nothing() -> None:
    async def story() -> None:
        a = await Group.found(options("a"))
        proxy = Proxy(a.addresses[0])
        address = await proxy.start()
        tell = msgspec.structs.replace(a.options, advertise=(address,))
        a.driver.transport.options, a.driver.transport.addresses = tell, (address,)
        b = await Group.join(options("b", address, advertise=("127.0.0.1:1",)))
        async with a, b:
            await b.primary_of(2)
            for _ in range(3):
                proxy.cut_after = proxy.passed + 20_000
                results = await asyncio.gather(*(b.broadcast(b"%d" % i + b"x" * 500) for i in range(100)))
                assert len(results) == 100
                await b.primary_of(2)
            assert proxy.cuts == 3
            for member in (a, b):
                bodies: list[bytes] = []
                async for event in member.deliveries():
                    if isinstance(event, Delivery):
                        bodies.append(event.body)
                        if len(bodies) == 300:
                            break
                assert sorted(bodies) == sorted(3 * [b"%d" % i + b"x" * 500 for i in range(100)])
        await proxy.close()

    run(story)


def test_broadcast_waits_and_broadcast_nowait_raises_at_the_bound() -> None:
    async def story() -> None:
        bounds = Bounds(outstanding_len_max=4, entry_len_max=100)
        async with await Group.found(options("a", bounds=bounds)) as a:
            await a.primary_of(1)
            for _ in range(4):
                a.broadcast_nowait(b"x")
            with pytest.raises(Full, match="4 entries"):
                a.broadcast_nowait(b"x")
            await asyncio.gather(*(a.broadcast(b"y") for _ in range(20)))
            with pytest.raises(ValueError, match="at most 100"):
                await a.broadcast(b"x" * 101)

    run(story)


def test_outside_the_primary_view_an_entry_waits_and_can_be_withdrawn() -> None:
    async def story() -> None:
        async with await Group.join(options("b", "127.0.0.1:1")) as b:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await b.broadcast(b"x")
            await eventually(lambda: b.driver.submissions.outstanding == 0)
            waiting = asyncio.ensure_future(b.broadcast(b"y"))
            await asyncio.sleep(0)
        with pytest.raises((InDoubt, NotDelivered)):
            await waiting
        with pytest.raises(NotDelivered, match="closed"):
            await b.broadcast(b"z")

    run(story)


def test_views_are_reported_and_a_leaving_member_is_removed() -> None:
    async def story() -> None:
        a, b, c = await three()
        sizes: list[int] = []

        async def follow() -> None:
            async for view in a.views():
                sizes.append(len(view.members) if view is not None else 0)  # noqa: PERF401

        task = asyncio.ensure_future(follow())
        async with a, b:
            await eventually(lambda: sizes == [3])  # its task runs: sockets may be read before a task begins
            c.broadcast_nowait(b"last words")
            await c.leave()
            await a.primary_of(2)
            await b.primary_of(2)
            await eventually(lambda: sizes[-1] == 2)
        await task
        assert sizes[0] == 3
        assert sizes[-1] == 0

    run(story)


def test_a_late_joiner_is_told_which_entries_it_missed() -> None:
    async def story() -> None:
        settings = msgspec.structs.replace(RUNTIME_SETTINGS, snapshot_every=10)
        async with await Group.found(options("a", settings=settings)) as a:
            for _ in range(35):
                await a.broadcast(b"x")
            async with await Group.join(options("b", a.addresses[0], settings=settings)) as b:
                await b.primary_of(2)
                deliveries = b.deliveries()
                first = await anext(deliveries)
                assert isinstance(first, Skipped)
                assert first.position % 10 == 0
                async for event in deliveries:
                    if isinstance(event, PrimaryView) and len(event.view.members) == 2:
                        break

    run(story)


def test_a_data_directory_is_founded_once_and_resumed(tmp_path: Path) -> None:
    async def story() -> None:
        machine = CounterMachine()
        async with await Group.found(options("a", data=tmp_path / "a"), machine) as a:
            for _ in range(10):
                await a.broadcast(b"x")
        with pytest.raises(DiskExists, match="founded once"):
            await Group.found(options("a", data=tmp_path / "a"))
        again = CounterMachine()
        async with await Group.join(options("a", data=tmp_path / "a"), again) as a:
            await a.primary_of(1)
            assert await a.broadcast(b"x") == 11
        with pytest.raises(ValueError, match="needs the address of a member"):
            await Group.join(options("b", data=tmp_path / "b"))

    run(story)


def test_an_address_in_use_is_reported() -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            with pytest.raises(CannotListen, match="another process may use this port"):
                await Group.found(options("b", listen=a.addresses))

    run(story)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"name": ""}, "1 to 64 characters"),
        ({"key": b"short"}, "at least 16 bytes"),
        ({"listen": ()}, "listen is empty"),
        ({"contacts": ("nonsense",)}, "is not an address"),
        ({"listen": ("0.0.0.0:0",)}, "set the address that peers connect to"),
    ],
    ids=["name", "key", "listen", "contacts", "everywhere"],
)
def test_invalid_options_are_rejected(wrong: dict[str, object], complaint: str) -> None:
    async def story() -> None:
        with pytest.raises((ValueError, CannotListen), match=complaint):
            await Group.found(options("a", **wrong))

    run(story)


def test_mutual_tls(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    tls = make_tls(certificate, key, certificate)

    async def story() -> None:
        async with (
            await Group.found(options("a", tls=tls)) as a,
            await Group.join(options("b", a.addresses[0], tls=tls)) as b,
            await Group.join(options("c", a.addresses[0])) as c,
        ):
            await b.primary_of(2)
            await b.broadcast(b"x" * 100_000)
            await eventually(lambda: c.driver.transport.counters.dialed > 2)
            assert c.primary is None
            assert len(a.driver.transport.connections) == 1

    run(story)


def test_prometheus_metrics() -> None:
    async def story() -> None:
        a, b, c = await three()
        async with a, b, c:
            await b.broadcast(b"x")
            registry = CollectorRegistry()
            registry.register(GroupCollector(b))
            text = generate_latest(registry).decode()
            for line in ("cluster_primary 1.0", "cluster_primary_members 3.0", "cluster_entries_delivered_total 1.0",
                         "cluster_connections 2.0", 'cluster_handshakes_failed_total{reason="wrong_key"} 0.0',
                         'cluster_latency_seconds_bucket{le="+Inf"} 1.0'):  # fmt: skip
                assert line in text

    run(story)


def test_all_exports_exist() -> None:
    for name in cluster.__all__:
        assert getattr(cluster, name).__name__ == name


def test_importing_the_pure_stack_imports_no_sockets() -> None:
    code = "import sys, cluster, cluster.stack; print('asyncio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    with pytest.raises(AttributeError, match="no attribute 'Groupe'"):
        _ = cluster.Groupe
