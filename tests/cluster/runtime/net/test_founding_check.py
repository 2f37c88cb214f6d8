"""A cluster is founded once: a second founding is refused if a member is reachable, and kept apart otherwise."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster import Group, Options
from cluster.runtime.disk.store import Purpose, Store
from cluster.runtime.net.founding_check import AlreadyFounded
from tests.cluster.runtime.loops import eventually, run
from tests.cluster.runtime.members import TOP, Cluster

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"k" * 32


def options(name: str, *contacts: str, data: Path | None = None, cluster: str = "cluster", key: bytes = KEY) -> Options:
    return Options(name=name, key=key, listen=("127.0.0.1:0",), contacts=contacts, data=data, cluster=cluster)


def foreign(group: Group) -> int:
    return group.driver.transport.counters.handshakes_failed["foreign_group"]


def founding(folder: Path) -> str:
    """The founding on disk, opened as its process would."""
    store = Store.open(folder, create_for=Purpose.JOINING, name=folder.name, cluster_id="cluster")
    try:
        return store.founding
    finally:
        store.close()


def test_a_second_founding_is_refused_by_any_member(tmp_path: Path) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", *a.addresses)) as b:
            await b.primary_of(2)
            with pytest.raises(AlreadyFounded, match="start c without founding, and it joins"):
                await Group.found(options("c", "127.0.0.1:1", b.addresses[0], data=tmp_path / "c"))
            assert not (tmp_path / "c").exists()
            assert foreign(b) == 1
            assert len(b.driver.transport.connections) == 1
            async with await Group.join(options("c", *b.addresses, data=tmp_path / "c")) as c:
                await c.primary_of(3)

    run(story)


def test_a_cluster_without_a_primary_view_cannot_be_founded_again(tmp_path: Path) -> None:
    async def story() -> None:
        a = await Group.found(options("a", data=tmp_path / "a"))
        b = await Group.join(options("b", *a.addresses, data=tmp_path / "b"))
        await b.primary_of(2)
        await a.close()
        async with b:
            await eventually(lambda: b.primary is None)
            with pytest.raises(AlreadyFounded):
                await Group.found(options("a", *b.addresses))

    run(story)


def test_joining_and_foreign_processes_do_not_prevent_a_founding() -> None:
    async def story() -> None:
        async with (
            await Group.join(options("b", "127.0.0.1:1")) as waits,
            await Group.found(options("x", cluster="another")) as another,
            await Group.found(options("y", key=b"z" * 32)) as locked,
            await Group.found(options("a", *waits.addresses, *another.addresses, *locked.addresses)) as a,
        ):
            await a.primary_of(2)
            await waits.primary_of(2)

    run(story)


def test_members_of_two_foundings_never_connect_and_both_log_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.found(options("b")) as b:
            a.driver.transport._dialing.contact(b.addresses[0])
            await eventually(lambda: foreign(a) > 1 and foreign(b) > 1)
            assert not a.driver.transport.connections
            assert not b.driver.transport.connections

    run(story)
    assert caplog.text.count("belongs to another founding of this cluster") == 2  # one line per side in ten seconds


def test_two_joiners_separate_when_their_foundings_differ() -> None:
    async def story() -> None:
        async with (
            await Group.join(options("c", "127.0.0.1:1")) as c,
            await Group.join(options("d", *c.addresses)) as d,
            await Group.found(options("a")) as a,
            await Group.found(options("b")) as b,
        ):
            await eventually(lambda: len(c.driver.transport.connections) == len(d.driver.transport.connections) == 1)
            a.driver.transport._dialing.contact(c.addresses[0])
            await a.primary_of(3)  # c learned it from a, and d from c
            b.driver.transport._dialing.contact(d.addresses[0])
            await eventually(lambda: foreign(b) > 0)
            assert b.driver.transport.connections == {}
            assert {member.driver.transport.group for member in (a, c, d)} == {a.driver.transport.group}

    run(story)


def test_the_founding_is_on_disk_and_holds_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        a = await Group.found(options("a", data=tmp_path / "a"))
        b = await Group.join(options("b", *a.addresses, data=tmp_path / "b"))
        async with a, b:
            await b.primary_of(2)
        assert founding(tmp_path / "a") == founding(tmp_path / "b") != ""
        async with (
            await Group.found(options("x")) as x,
            await Group.join(options("b", *x.addresses, data=tmp_path / "b")) as b,
        ):
            await eventually(lambda: foreign(b) > 0)
            assert not b.driver.transport.connections
            assert not x.driver.transport.connections

    run(story)


def test_on_the_command_line(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.begin("a")
        done = subprocess.run(
            [sys.executable, "-m", "cluster", "node", "--name", "b", "--key-file", str(cluster.key_file), "--found",
             "--join", cluster.members["a"].address],
            cwd=TOP, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=30,
        )  # fmt: skip
        assert done.returncode == 2
        assert "already exists and cannot be founded again" in done.stderr
        assert "Traceback" not in done.stderr
        cluster.quiet().stop()
