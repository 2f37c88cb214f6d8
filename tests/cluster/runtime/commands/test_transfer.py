"""`python -m cluster send` and `receive` as processes: killed in the middle of transfers."""

from __future__ import annotations

import errno
import signal
import time
from typing import TYPE_CHECKING

import pytest

from cluster import BulkMessage, ProcessId, SendProgress
from cluster.bulk.effects import Outcome
from cluster.runtime.commands.transfer import fate, store_file
from tests.cluster.runtime.commands.transfers import LARGE, SLOWLY, Transfers, content
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


@pytest.fixture
def transfers(tmp_path: Path) -> Iterator[Transfers]:
    with Transfers(tmp_path) as made:
        yield made


def test_a_file_reaches_all_and_a_dead_consumer_stops_nobody(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE), *SLOWLY)
    transfers.wait_for_the_middle("c")
    transfers.kill("c")
    assert transfers.end("x") == 0, transfers.log("x")
    for name in "ab":
        wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
    assert "accepted, 2 of 3 receivers have it" in transfers.log("x")
    assert transfers.order("a") == transfers.order("b")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_sender_that_is_told_to_end_leaves_nothing_on_the_disk(transfers: Transfers, number: signal.Signals) -> None:
    spool = transfers.folder / "spool"
    spool.mkdir()
    transfers.receiver("a")
    transfers.sender("x", content(LARGE), *SLOWLY, "--spool", str(spool))
    transfers.wait_for_the_middle("a")
    transfers.kill("x", number)
    assert transfers.end("x") == 128 + number
    assert not [*spool.iterdir()]
    assert "Traceback" not in transfers.log("x")


def test_a_sender_says_who_receives_nothing(transfers: Transfers) -> None:
    for name in "ab":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE), "--multicast", "239.255.71.9:7011", "--interface", "lo")
    for name in "ab":
        line = f"{name} has received nothing yet (does it have the same --multicast?)"
        wait_for(lambda line=line: line in transfers.log("x"), "the sender to notice")  # type: ignore[misc]


def test_a_dead_coordinator_is_replaced(transfers: Transfers) -> None:
    for name in "abcd":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE), *SLOWLY)
    transfers.wait_for_the_middle("b")
    transfers.kill("a")
    assert transfers.end("x") == 0, transfers.log("x")
    for name in "bcd":
        wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
    assert transfers.order("b") == transfers.order("c") == transfers.order("d")


def test_a_sender_without_a_majority_says_that_it_waits(transfers: Transfers) -> None:
    transfers.receiver("a")
    transfers.sender("x", content(LARGE), *SLOWLY)
    transfers.wait_for_the_middle("a")
    transfers.kill("a", signal.SIGSTOP)
    wait_for(lambda: "x waits: it does not reach a majority" in transfers.log("x"), "the sender to notice")
    transfers.kill("a", signal.SIGCONT)
    assert transfers.end("x") == 0, transfers.log("x")
    assert "x continues\n" in transfers.log("x")
    wait_for(lambda: transfers.has("a", "x.bin", content(LARGE)), "the transfer")


def test_a_message_of_a_dead_producer_is_delivered_by_all_or_none(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE), *SLOWLY)
    transfers.wait_for_the_middle("b")
    transfers.kill("x")
    transfers.sender("y", b"afterwards")
    assert transfers.end("y") == 0, transfers.log("y")
    for name in "abc":
        wait_for(lambda name=name: transfers.has(name, "y.bin", b"afterwards"), "the transfer")  # type: ignore[misc]
        transfers.kill(name, signal.SIGTERM)
    assert [transfers.end(name) for name in "abc"] == [0, 0, 0]
    assert transfers.order("a") == transfers.order("b") == transfers.order("c")
    assert not any("x.bin" in line for line in transfers.order("a"))  # it was killed in the middle


def test_a_stopped_consumer_continues_with_the_same_order_or_says_what_it_missed(transfers: Transfers) -> None:
    for name in "abc":
        transfers.receiver(name)
    transfers.sender("x", content(LARGE), *SLOWLY)
    transfers.wait_for_the_middle("c")
    transfers.kill("c", signal.SIGSTOP)
    assert transfers.end("x") == 0, transfers.log("x")
    transfers.sender("y", b"afterwards")
    assert transfers.end("y") == 0, transfers.log("y")
    transfers.kill("c", signal.SIGCONT)
    wait_for(lambda: "were missed" in transfers.log("c") or len(transfers.order("c")) == 2, "c to continue")
    transfers.sender("z", b"at last")
    assert transfers.end("z") == 0, transfers.log("z")
    for name in "abc":
        wait_for(lambda name=name: transfers.has(name, "z.bin", b"at last"), "the transfer")  # type: ignore[misc]
    assert transfers.order("a") == transfers.order("b")
    order = transfers.order("c")
    assert order == transfers.order("a") or (
        "were missed" in transfers.log("c") and [line for line in transfers.order("a") if line in order] == order
    )


def test_a_large_file_is_not_held_in_memory(transfers: Transfers) -> None:
    """The same processes with a small and with a large file: their largest memory differs by less than the file."""
    large = 40_000_000
    transfers.receiver("a")
    peaks = []
    for name, size in (("x", 1), ("y", large)):
        transfers.sender(name, content(size))
        sender = 0
        while transfers.processes[name].poll() is None:
            sender = max(sender, transfers.peak_memory(name))
            time.sleep(0.01)
        assert transfers.end(name) == 0, transfers.log(name)
        wait_for(lambda name=name, size=size: transfers.has("a", f"{name}.bin", content(size)), "the transfer")  # type: ignore[misc]
        peaks.append((sender, transfers.peak_memory("a")))
    assert peaks[1][0] - peaks[0][0] < large / 2
    assert peaks[1][1] - peaks[0][1] < large / 2


@pytest.mark.parametrize("name", ["taken", "a" * 256, "../escape", "."])
def test_a_name_that_no_file_can_have_here_is_refused(tmp_path: Path, name: str) -> None:
    inbox = tmp_path / "inbox"
    (inbox / "taken").mkdir(parents=True)
    content = tmp_path / "7.done"
    content.write_bytes(b'{"name":"%s","size":1}\nx' % name.encode())
    line = store_file(BulkMessage(7, ProcessId("eve"), content, content.stat().st_size), inbox)
    assert line.startswith(f"message 7 of eve was refused: {name!r}")
    assert [path.name for path in inbox.iterdir()] == ["taken"]
    assert not content.exists()


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy(_source: object, target: BinaryIO, _length: int) -> None:
        target.write(b"part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", copy)
    content = tmp_path / "7.done"
    content.write_bytes(b'{"name":"a","size":1}\nx')
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    with pytest.raises(OSError, match="No space left"):
        store_file(BulkMessage(7, ProcessId("eve"), content, 24), inbox)
    assert not [*inbox.iterdir()]


def test_the_sender_shows_control_characters_of_a_name_as_escapes(transfers: Transfers) -> None:
    transfers.receiver("a")
    file = transfers.folder / "\x1b[2Jx\ny"
    file.write_bytes(b"content")
    transfers.start("x", "send", str(file))
    assert transfers.end("x") == 0
    assert "\\x1b[2Jx\\ny: accepted" in transfers.log("x")
    assert transfers.has("a", file.name, b"content")


def test_the_fate_of_a_file() -> None:
    def progress(**receivers: int) -> SendProgress:
        return SendProgress(100, True, 100, receivers, 0, 0)

    assert fate(Outcome.ACCEPTED, progress(a=100, b=100)) == "accepted, 2 of 2 receivers have it"
    assert fate(Outcome.ACCEPTED, progress(a=100, b=99)) == "accepted, 1 of 2 receivers have it (without it: b)"
    assert fate(Outcome.REJECTED, progress(a=7)) == "rejected, 0 of 1 receivers have it"
    assert "do all members have the same --multicast?" in fate(Outcome.REJECTED, progress(a=0))


def test_a_rate_that_is_none_is_refused(transfers: Transfers) -> None:
    transfers.start("a", "send", str(transfers.folder / "key"), "--max-rate", "fast")
    assert transfers.end("a") == 2
    assert "'fast' is not a rate; write Mbit/s, such as 50" in transfers.log("a")


def test_bad_arguments(transfers: Transfers) -> None:
    transfers.start("a", "send", str(transfers.folder / "nosuch"))
    assert transfers.end("a") == 2
    assert "nosuch is not a file" in transfers.log("a")
    transfers.start("b", "receive", str(transfers.folder / "b"), "--multicast", "239.1.1.1:7000")
    assert transfers.end("b") == 2
    assert "--multicast needs --interface" in transfers.log("b")
