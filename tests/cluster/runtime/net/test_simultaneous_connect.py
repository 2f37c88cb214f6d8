"""Two connections of the same two processes: one stays, and neither process considers the other lost."""

from __future__ import annotations

import logging

import pytest

from cluster import Group, Options
from cluster.runtime.net.dialing import DialTask
from tests.cluster.runtime.loops import eventually, run

KEY = b"k" * 32


def options(name: str, *contacts: str) -> Options:
    return Options(name=name, key=KEY, listen=("127.0.0.1:0",), contacts=contacts)


async def dial(caller: Group, called: Group) -> None:
    """Open a second connection, as a process would that has not noticed the first one yet."""
    transport = caller.driver.transport
    await transport._dialing._attempt(DialTask(name=called.driver.transport.me.name), called.addresses[0])


@pytest.mark.parametrize("lower_calls", [True, False])
def test_replacing_a_connection_does_not_lose_the_peer(caplog: pytest.LogCaptureFixture, lower_calls: bool) -> None:
    caplog.set_level(logging.INFO, "cluster.views")

    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", *a.addresses)) as b:
            for member in (a, b):
                await member.primary_of(2)
            caller, called = (a, b) if lower_calls else (b, a)
            views = caplog.text.count("established")
            replaced = [member.driver.transport.counters.replaced for member in (a, b)]
            caller.driver.transport.of_name(called.driver.transport.me.name).opened_at -= 10  # type: ignore[union-attr]
            called.driver.transport.of_name(caller.driver.transport.me.name).opened_at -= 10  # type: ignore[union-attr]
            await dial(caller, called)
            await eventually(
                lambda: [m.driver.transport.counters.replaced for m in (a, b)] == [count + 1 for count in replaced]
            )
            await a.broadcast(b"x")
            await b.broadcast(b"y")
            await eventually(lambda: not any(m.driver.transport._replaced for m in (a, b)))
            await b.broadcast(b"z")
            assert caplog.text.count("established") == views

    run(story)
    assert "no more" not in caplog.text
