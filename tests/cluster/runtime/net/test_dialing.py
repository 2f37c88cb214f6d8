"""Who is called again and again, and who is not any more."""

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


def called(group: Group) -> set[str]:
    return {errand.name for errand in group.driver.transport._dialing._errands.values()}


def test_who_left_is_not_called_for_ever_and_may_come_back() -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", *a.addresses)) as b:
            c = await Group.join(options("c", *a.addresses))
            for member in (a, b, c):
                await member.primary_of(3)
            await c.leave()
            for member in (a, b):
                await member.primary_of(2)
            await eventually(lambda: all("c" not in g.driver.transport.book.names for g in (a, b)))
            await eventually(lambda: called(a) == called(b) == set())
            dialed = a.driver.transport.counters.dialed
            await b.broadcast(b"x")
            assert a.driver.transport.counters.dialed == dialed
            async with await Group.join(options("c", *b.addresses)) as c:
                for member in (a, b, c):
                    await member.primary_of(3)

    run(story)


def test_who_is_needed_for_a_primary_view_is_called_for_as_long_as_it_takes(tmp_path: Path) -> None:
    async def story() -> None:
        a = await Group.found(options("a", data=tmp_path / "a"))
        async with await Group.join(options("b", *a.addresses)) as b:
            await b.primary_of(2)
            await a.close()
            dialed = b.driver.transport.counters.dialed
            await eventually(lambda: b.driver.transport.counters.dialed > dialed + 20)  # longer than forget_s
            assert called(b) == {"a"}
            async with await Group.join(options("a", data=tmp_path / "a", listen=a.addresses[0])) as again:
                await again.primary_of(2)  # it knows nobody: it was called

    run(story)


def test_what_was_forgotten_is_not_believed_again_of_others() -> None:
    book = AddressBook("a")
    here, there = ("127.0.0.1:1",), ("127.0.0.1:2",)
    assert book.learn(Addresses((("c", here),)))
    book.forget("c")
    assert not book.learn(Addresses((("c", here),)))
    assert "c" not in book.names
    assert book.learn(Addresses((("c", there),)))
    book.forget("c")
    assert book.said_of_itself("c", there)
    assert book["c"] == there
    for number in range(2 * ADDRESSES_MAX):
        book.said_of_itself(f"n{number}", here)
        book.forget(f"n{number}")
    assert len(book._forgotten) <= ADDRESSES_MAX


@pytest.mark.parametrize(
    ("name", "key", "words"),
    [
        ("b", b"j" * 32, "has it another cluster key?"),
        ("a", KEY, "this process has the name a too"),
    ],
)
def test_who_is_not_let_in_says_why(caplog: pytest.LogCaptureFixture, name: str, key: bytes, words: str) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            stranger = Options(name=name, key=key, listen=("127.0.0.1:0",), contacts=a.addresses, bounds=HURRIED)
            async with await Group.join(stranger):
                await eventually(lambda: f"not let in at {a.addresses[0]}" in caplog.text)

    run(story)
    assert words in caplog.text


def test_nobody_there_is_said_too(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with await Group.found(options("a")) as a:
            nobody = a.addresses
        async with await Group.join(options("b", *nobody)):
            await eventually(lambda: f"not let in at {nobody[0]}: Connection refused" in caplog.text)

    run(story)


@pytest.mark.parametrize("kind", ["wrong key", "nobody there", "silent"])
def test_a_joiner_reports_within_a_second_and_repeats_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """By the loop's clock, from when it begins to dial. `silent`: the address takes the connection and says nothing."""
    monkeypatch.setattr(dialing, "REPORT_ALONE_EVERY_S", 0.2)
    due: list[float] = []
    report_later = dialing.Dialer._report_later

    def note(self: dialing.Dialer, errand: dialing.DialTask, after_s: float) -> None:
        due.append(after_s)
        report_later(self, errand, after_s)

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
                    await eventually(lambda: caplog.text.count(f"not let in at {address}: ") >= 3)

    run(story)
    assert due[0] < 1.0
    words = {"wrong key": "has it another cluster key?", "nobody there": "refused", "silent": "no answer yet"}
    assert words[kind] in caplog.text
