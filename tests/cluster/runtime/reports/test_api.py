"""`cluster.Reports` over real sockets in one process: changes, counters, errors, streams that break."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from cluster import Group, Options, Reports, ReportSettings, ReportsFull
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

HERE = ("127.0.0.1:0",)


@asynccontextmanager
async def two_members() -> AsyncIterator[list[Group]]:
    key = secrets.token_bytes(32)
    a = await Group.found(Options(name="a", key=key, listen=HERE))
    b = await Group.join(Options(name="b", key=key, listen=HERE, contacts=a.addresses))
    try:
        await a.primary_of(2)
        yield [a, b]
    finally:
        await b.close()
        await a.close()


def has_value(reports: Reports, sender: Group, expected: bytes) -> bool:
    return reports.values()[sender.me]["x"].value == expected


async def _changes_are_yielded_and_a_slow_reader_gets_the_latest(groups: list[Group]) -> None:
    a, b = (Reports(group) for group in groups)
    async with aclosing(b.changes()) as changes:  # type: ignore[type-var]
        a.publish("load", b"1")
        first = await asyncio.wait_for(anext(changes), 30)
        assert (first.sender, first.item, first.value) == (groups[0].me, "load", b"1")
        for number in range(2, 100):
            a.publish("load", b"%d" % number)
        await eventually(lambda: b.values()[groups[0].me]["load"].value == b"99")
        second = await asyncio.wait_for(anext(changes), 30)
        assert second.value == b"99"
        assert 0 <= second.age_s < 30


async def _a_broken_stream_is_opened_again_and_loses_nothing(groups: list[Group]) -> None:
    a, b = (Reports(group) for group in groups)
    a.publish("x", b"1")
    await eventually(lambda: groups[0].me in b.values())
    for number in range(3):
        for connection in list(b._streams._streams.values()):
            connection.close()
        expected = b"again %d" % number
        a.publish("x", expected)
        await eventually(partial(has_value, b, groups[0], expected))
    (line,) = a.peers()
    await eventually(lambda: a.peers()[0].unacked == 0)
    assert line.peer == groups[1].me


async def _a_bound_is_reported_and_reports_that_waited_arrive(groups: list[Group]) -> None:
    a = Reports(groups[0], ReportSettings(buffer_len_max=2, pending_len_max=1))
    a.publish("1", b"")  # b takes no reports yet
    a.publish("2", b"")
    a.publish("3", b"old")
    with pytest.raises(ReportsFull, match="has not acknowledged 2 reports"):
        a.publish("4", b"")
    a.publish("3", b"new")
    assert a.replaced == 1
    b = Reports(groups[1])
    await eventually(lambda: len(b.values().get(groups[0].me, {})) == 3)
    assert b.values()[groups[0].me]["3"].value == b"new"


SCENARIOS: list[Callable[[list[Group]], Awaitable[None]]] = [
    _changes_are_yielded_and_a_slow_reader_gets_the_latest,
    _a_broken_stream_is_opened_again_and_loses_nothing,
    _a_bound_is_reported_and_reports_that_waited_arrive,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__.strip("_"))
def test_two_members(scenario: Callable[[list[Group]], Awaitable[None]]) -> None:
    async def play() -> None:
        async with two_members() as groups:
            await scenario(groups)

    run(play)
