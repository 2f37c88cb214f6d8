"""Recoveries without a majority stay visible for ever: at all continuing members and at all that join later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from cluster import Group, Options
from cluster.names import ProcessId, founding_view
from cluster.runtime.commands.inspection import inspect
from cluster.runtime.commands.recovery_commands import recover
from cluster.runtime.disk.rows import RECOVERIES_MAX, Recovery, all_recoveries
from cluster.runtime.net.keys import make_key_file, read_key_file
from cluster.runtime.observe.metrics import GroupCollector
from tests.cluster.runtime.loops import eventually, run
from tests.cluster.runtime.members import Member
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def test_a_recovery_is_known_to_all_who_join_and_stays_on_disk(tmp_path: Path) -> None:
    key_file = tmp_path / "key"
    make_key_file(key_file)
    key = read_key_file(key_file)

    def options(name: str, *contacts: str, cluster: str, volatile: bool = False) -> Options:
        data = None if volatile else tmp_path / name
        return Options(name=name, key=key, listen=("127.0.0.1:0",), contacts=contacts, data=data, cluster=cluster)

    async def lose_a_majority() -> None:
        async with (
            await Group.found(options("a", cluster="shop")) as a,
            await Group.join(options("b", *a.addresses, cluster="shop")) as b,
            await Group.join(options("c", *a.addresses, cluster="shop")) as c,
        ):
            for member in (a, b, c):
                await member.primary_of(3)
            await a.broadcast(b"x")
            assert c.recoveries == ()

    run(lose_a_majority)
    assert recover([tmp_path / "c"], lambda _line: None, None) == 0
    found: list[str] = []

    async def go_on() -> None:
        shop = inspect(tmp_path / "c", 0).cluster_id
        found.append(shop)
        async with (
            await Group.join(options("c", cluster=shop)) as c,
            await Group.join(options("d", *c.addresses, cluster=shop)) as d,
            await Group.join(options("e", *d.addresses, cluster=shop, volatile=True)) as e,
        ):
            for member in (c, d, e):
                await member.primary_of(3)
            await eventually(lambda: c.recoveries == d.recoveries == e.recoveries != ())
            for member in (c, d, e):
                registry = CollectorRegistry()
                registry.register(GroupCollector(member))
                assert "cluster_recoveries 1.0" in generate_latest(registry).decode()
            assert e.recoveries[0].kept == (c.me,)

    run(go_on)
    arguments = ["--key-file", str(key_file), "--cluster", found[0], "--data", str(tmp_path / "d")]
    member = Member("d", arguments, tmp_path, [])
    try:
        wait_for(lambda: len(member.status.get("recoveries", ())) == 1, "d, which only joined, says it after a restart")
    finally:
        assert member.stop() == 0
    assert member.events[-1]["recoveries"][0].startswith("20")


def test_recoveries_of_both_sides_are_merged_in_order() -> None:
    me = ProcessId("a")
    first, second = (
        Recovery(at, "shop", f"shop+{at}", at, founding_view(me), (me,), (), 1, 1)
        for at in ("2026-01-01", "2026-02-02")
    )
    assert all_recoveries((second,), (first,)) == all_recoveries((first, second), ()) == (first, second)
    many = tuple(msgspec.structs.replace(first, at=f"{i:04}") for i in range(2 * RECOVERIES_MAX))
    assert all_recoveries((), many) == many[RECOVERIES_MAX:]
