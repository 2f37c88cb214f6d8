"""``python -m cluster send`` and ``receive``: files to all members of a cluster by the multicast transport.

A message is a line of JSON, `{"name": ..., "size": ...}`, and the content of the file.
Below: `cluster.Bulk`.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from cluster.bulk.effects import Outcome
from cluster.runtime.api.bulk import Bulk, BulkClosed, BulkGap, BulkMessage, SendProgress
from cluster.runtime.bulk.endpoint import MulticastGroup
from cluster.runtime.commands.progress import ProgressBars, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

    from cluster.runtime.api.options import Options

CHUNK_LEN = 1024 * 1024
TITLE_LEN_MAX = 4096
DRAW_S = 0.2  # between two drawings of the progress bars of a receiver
UNUSABLE_NAME = (errno.EISDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)  # a sender must not end a receiver
LOOK_S = 0.5  # between two looks at the primary view
CUT_OFF_S = 2.0  # without a primary view, before the user is told
NAMES_MAX = 8  # of receivers without the file, in a summary
SILENT_S = 5.0  # without a packet at a receiver, before the user is told
ATTEMPTS = 5  # a message is rejected when the coordinator changes: it is sent again


class FileTitle(msgspec.Struct):
    """The first line of a message."""

    name: str
    size: int


_decode_title = msgspec.json.Decoder(FileTitle).decode
_encode_title = msgspec.json.Encoder().encode


def multicast_of(arguments: argparse.Namespace) -> MulticastGroup | None:
    """Raises ValueError."""
    if not arguments.multicast:
        if arguments.interface:
            raise ValueError("--interface needs --multicast ADDRESS")
        return None
    if not arguments.interface:
        raise ValueError("--multicast needs --interface NAME, the network interface of the group")
    group = MulticastGroup(arguments.multicast, arguments.interface)
    group.validate()
    return group


async def _begin(options: Options, arguments: argparse.Namespace, spool: str) -> Bulk:
    begin = Bulk.found if arguments.found else Bulk.join
    bulk = await begin(options, Path(spool), multicast_of(arguments))
    print(f"{bulk.replica.me.name} listens at {bulk.replica.addresses[0]}", flush=True)
    return bulk


@asynccontextmanager
async def _member(options: Options, arguments: argparse.Namespace, spool: str) -> AsyncIterator[Bulk]:
    """A member for the time of a command."""
    async with await _begin(options, arguments, spool) as bulk:
        watch = asyncio.ensure_future(_tell_if_cut_off(bulk))
        try:
            yield bulk
        finally:
            watch.cancel()


async def _tell_if_cut_off(bulk: Bulk) -> None:
    """Tells the user when this member waits for a majority, and when it goes on."""
    name, since, is_told = bulk.replica.me.name, time.monotonic(), False
    while True:
        await asyncio.sleep(LOOK_S)
        if bulk.replica.primary is not None:
            if is_told:
                print(f"{name} continues", flush=True)
            since, is_told = time.monotonic(), False
        elif not is_told and time.monotonic() >= since + CUT_OFF_S:
            print(f"{name} waits: it does not reach a majority of the members", flush=True)
            is_told = True


def _cancel_at_sigterm() -> None:
    """Like Ctrl-C, so that nothing stays in the spool."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


# ---- send


async def send(options: Options, arguments: argparse.Namespace) -> int:
    _cancel_at_sigterm()
    path: Path = arguments.file
    size = _size(path)
    with TemporaryDirectory(prefix="bulk-", dir=arguments.spool) as spool:
        async with _member(options, arguments, spool) as bulk:
            start = time.monotonic()
            rates = {"min_rate": arguments.min_rate * 1e6 / 8, "max_rate": arguments.max_rate * 1e6 / 8}
            view = SenderView(bulk.replica.me.name, size, is_multicast=bool(arguments.multicast))
            outcome = await _send_until_decided(bulk, path, rates, view)
            seconds = time.monotonic() - start
            print(
                f"{printable(path.name)}: {fate(outcome, view.last)}, {size} bytes in {seconds:.2f} s, "
                f"{_rate(size, seconds)}, {bulk.sent_bytes} bytes in datagrams, {bulk.repeated} packets sent again, "
                f"{bulk.naks_received} NAKs",
                flush=True,
            )
            await bulk.leave()
    return 0 if outcome is Outcome.ACCEPTED else 1


def _size(path: Path) -> int:
    if not path.is_file():
        raise ValueError(f"{path} is not a file")
    return path.stat().st_size


def fate(outcome: Outcome, progress: SendProgress) -> str:
    """The outcome of the transfer of a file, in words."""
    if outcome is Outcome.REJECTED and not any(progress.receivers.values()):
        return "rejected, no receiver got anything (do all members have the same --multicast?)"
    without = sorted(name for name, received in progress.receivers.items() if received < progress.size)
    total = len(progress.receivers)
    counts = f"{outcome.value}, {total - len(without)} of {total} receivers have it"
    names = ", ".join(map(printable, without[:NAMES_MAX])) + (", ..." if len(without) > NAMES_MAX else "")
    return f"{counts} (without it: {names})" if without and outcome is not Outcome.REJECTED else counts


def _rate(size: int, seconds: float) -> str:
    return f"{8e-6 * size / max(1e-9, seconds):.1f} Mbit/s"


async def _send_until_decided(bulk: Bulk, path: Path, rates: dict[str, float], view: SenderView) -> Outcome:
    outcome = Outcome.REJECTED
    for _ in range(ATTEMPTS):
        outcome = await bulk.send(_read(path), view.draw, **rates)
        if outcome is not Outcome.REJECTED:
            break
    return outcome


class SenderView:
    """Display of a sender: a progress bar for each receiver, and the receivers that nothing reaches."""

    def __init__(self, me: str, size: int, *, is_multicast: bool) -> None:
        self._me = me
        self._size = size
        self._hint = " (does it have the same --multicast?)" if is_multicast else ""
        self._begun: float | None = None  # when the first packets were sent
        self._silent: set[str] = set()  # of which the user was told
        self._bars = ProgressBars(sys.stderr)
        self.last = SendProgress(0, False, 0, {}, 0, 0)  # without the sender among the receivers

    def draw(self, progress: SendProgress) -> None:
        receivers = {name: done for name, done in progress.receivers.items() if name != self._me}
        self.last = msgspec.structs.replace(progress, receivers=receivers)
        if progress.sent and self._begun is None:
            self._begun = time.monotonic()
        if self._begun is not None and time.monotonic() >= self._begun + SILENT_S:
            self._tell_silent(sorted(name for name, done in receivers.items() if not done))
        total = max(self._size, progress.size)
        self._bars.draw({name: (done, total) for name, done in receivers.items()})

    def _tell_silent(self, names: list[str]) -> None:
        for name in names:
            if name not in self._silent:
                self._silent.add(name)
                self._bars.clear()
                print(f"{printable(name)} has received nothing yet{self._hint}", flush=True)


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        yield _encode_title(FileTitle(path.name, os.fstat(file.fileno()).st_size)) + b"\n"
        while chunk := await asyncio.to_thread(file.read, CHUNK_LEN):
            yield chunk


# ---- receive


async def receive(options: Options, arguments: argparse.Namespace) -> int:
    _cancel_at_sigterm()
    folder: Path = arguments.folder
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="bulk-", dir=arguments.spool or folder) as spool:
        async with _member(options, arguments, spool) as bulk:
            task = asyncio.ensure_future(_receive_all(bulk, folder, arguments.count))
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, task.cancel)
            with suppress(asyncio.CancelledError, BulkClosed):
                await task
            await bulk.leave()
            if bulk.error is not None:
                raise bulk.error
    return 0


async def _receive_all(bulk: Bulk, folder: Path, count: int | None) -> None:
    received = 0
    view = ReceiverView(bulk)
    watch = asyncio.ensure_future(view.watch())
    try:
        print(f"{bulk.replica.me.name} receives from message {await bulk.joined()} on", flush=True)
        async for message in bulk.deliveries():
            view.bars.clear()
            if isinstance(message, BulkGap):
                print(f"messages before {message.first} were missed", flush=True)
                continue
            line = await asyncio.to_thread(store_file, message, folder)
            print(printable(line) + view.summary(message), flush=True)
            received += 1
            if received == count:
                return
    finally:
        watch.cancel()
        view.bars.clear()


class ReceiverView:
    """Display of a receiver: progress bars while messages arrive, and a summary of each."""

    def __init__(self, bulk: Bulk) -> None:
        self._bulk = bulk
        self._begun: dict[int, float] = {}  # when the first packet of a message was seen
        self._naks = 0
        self.bars = ProgressBars(sys.stderr)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(DRAW_S)
            now, bars = time.monotonic(), {}
            for progress in self._bulk.receiving:
                self._begun.setdefault(progress.number, now)
                if self.bars.is_shown:
                    title = _title(progress.begin)
                    name = title.name if title is not None else f"message {progress.number}"
                    bars[name] = (progress.received, title.size if title is not None else None)
            self.bars.draw(bars)

    def summary(self, message: BulkMessage) -> str:
        """The rate, if the transfer took long enough to measure it, and the NAKs since the last summary."""
        begun = self._begun.pop(message.number, None)
        self._begun = {number: at for number, at in self._begun.items() if number > message.number}
        naks, self._naks = self._bulk.naks - self._naks, self._bulk.naks
        rate = f", {_rate(message.size, time.monotonic() - begun)}" if begun is not None else ""
        return f"{rate}, {naks} NAKs"


def _title(begin: bytes) -> FileTitle | None:
    with suppress(msgspec.DecodeError):
        return _decode_title(begin.partition(b"\n")[0])
    return None


def store_file(message: BulkMessage, folder: Path) -> str:
    """Moves the content to its place. Returns a line for the user."""
    where = f"message {message.number} of {message.producer.name}"
    part = folder / f".{message.number}.part"
    try:
        with message.path.open("rb") as file:
            title = _decode_title(file.readline(TITLE_LEN_MAX))
            if title.name in ("", ".", "..") or "/" in title.name or "\0" in title.name:
                return f"{where} was refused: {title.name!r} is not the name of a file"
            with part.open("wb") as target:
                shutil.copyfileobj(file, target, CHUNK_LEN)
        part.replace(folder / title.name)
    except msgspec.DecodeError as error:
        return f"{where} was refused: it does not begin with a title ({error})"
    except OSError as error:
        if error.errno not in UNUSABLE_NAME:
            raise
        return f"{where} was refused: {title.name!r} cannot be the name of a file here: {error.strerror}"
    finally:
        message.path.unlink()
        part.unlink(missing_ok=True)
    return f"{where}: {title.name}, {title.size} bytes"
