"""Dialing: which peers are dialed for ever, which are given up, and how failures are logged."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from cluster import Group, Options
from cluster.runtime.api.options import Bounds
from cluster.runtime.net import dialing
from cluster.runtime.net.addresses import AddressBook
from cluster.runtime.net.wire import ADDRESSES_MAX, Addresses
from tests.cluster.runtime.loops import eventually, run

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"k" * 32
HURRIED = Bounds(forget_s=0.3, backoff_max_s=0.1)


def options(name: str, *contacts: str, data: Path | None = None, listen: str = "127.0.0.1:0") -> Options:
    return Options(name=name, key=KEY, listen=(listen,), contacts=contacts, data=data, bounds=HURRIED)


def dialed_names(group: Group) -> set[str]:
    return {dial.name for dial in group.driver.transport._dialing._dials.values()}


def test_a_departed_member_is_not_dialed_for_ever_and_may_return() -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", *a.addresses)) as b:
            c = await Group.join(options("c", *a.addresses))
            for member in (a, b, c):
                await member.primary_of(3)
            await c.leave()
            for member in (a, b):
                await member.primary_of(2)
            await eventually(lambda: all("c" not in g.driver.transport.book.names for g in (a, b)))
            await eventually(lambda: dialed_names(a) == dialed_names(b) == set())
            dialed = a.driver.transport.counters.dialed
            await b.broadcast(b"x")
            assert a.driver.transport.counters.dialed == dialed
            async with await Group.join(options("c", *b.addresses)) as c:
                for member in (a, b, c):
                    await member.primary_of(3)

    run(story)


def test_a_member_needed_for_a_primary_view_is_dialed_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        a = await Group.found(options("a", data=tmp_path / "a"))
        async with await Group.join(options("b", *a.addresses)) as b:
            await b.primary_of(2)
            await a.close()
            dialed = b.driver.transport.counters.dialed
            await eventually(lambda: b.driver.transport.counters.dialed > dialed + 20)  # longer than forget_s
            assert dialed_names(b) == {"a"}
            async with await Group.join(options("a", data=tmp_path / "a", listen=a.addresses[0])) as again:
                await again.primary_of(2)  # it has no contacts: b dialed it

    run(story)


def test_forgotten_addresses_are_not_relearned_from_peers() -> None:
    book = AddressBook("a")
    here, there = ("127.0.0.1:1",), ("127.0.0.1:2",)
    assert book.learn(Addresses((("c", here),)))
    book.forget("c")
    assert not book.learn(Addresses((("c", here),)))
    assert "c" not in book.names
    assert book.learn(Addresses((("c", there),)))
    book.forget("c")
    assert book.learn_own_report("c", there)
    assert book["c"] == there
    for number in range(2 * ADDRESSES_MAX):
        book.learn_own_report(f"n{number}", here)
        book.forget(f"n{number}")
    assert len(book._forgotten) <= ADDRESSES_MAX


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("b", b"j" * 32, "does it have another cluster key?"),
        ("a", KEY, "this process is also called a"),
    ],
)
def test_a_refused_process_logs_the_reason(caplog: pytest.LogCaptureFixture, name: str, key: bytes, words: str) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            stranger = Options(name=name, key=key, listen=("127.0.0.1:0",), contacts=a.addresses, bounds=HURRIED)
            async with await Group.join(stranger):
                await eventually(lambda: f"cannot join through {a.addresses[0]}" in caplog.text)

    run(story)
    assert words in caplog.text


def test_an_unreachable_contact_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            nobody = a.addresses
        async with await Group.join(options("b", *nobody)):
            await eventually(lambda: f"cannot join through {nobody[0]}: Connection refused" in caplog.text)

    run(story)


@pytest.mark.parametrize("kind", ["wrong key", "nobody there", "silent"])
def test_a_joiner_reports_within_a_second_and_repeats_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By the loop's clock, from when it begins to dial. `silent`: the address takes the connection and says nothing."""
    monkeypatch.setattr(dialing, "REPORT_ALONE_EVERY_S", 0.2)
    due: list[float] = []
    report_later = dialing.Dialer._report_later

    def note(self: dialing.Dialer, dial: dialing.DialTask, after_s: float) -> None:
        due.append(after_s)
        report_later(self, dial, after_s)

    monkeypatch.setattr(dialing.Dialer, "_report_later", note)

    async def story() -> None:
        async with await Group.found(options("a")) as a:
            address = a.addresses[0]
            with socket.create_server(("127.0.0.1", 0)) as silent:
                if kind == "silent":
                    address = f"127.0.0.1:{silent.getsockname()[1]}"
                if kind == "nobody there":
                    address = f"127.0.0.1:{silent.getsockname()[1]}"
                    silent.close()
                key = b"j" * 32 if kind == "wrong key" else KEY
                joiner = Options(name="b", key=key, listen=("127.0.0.1:0",), contacts=(address,))
                async with await Group.join(joiner):
                    await eventually(lambda: caplog.text.count(f"cannot join through {address}: ") >= 3)

    run(story)
    assert due[0] < 1.0
    words = {"wrong key": "does it have another cluster key?", "nobody there": "refused", "silent": "no answer yet"}
    assert words[kind] in caplog.text
