"""``python -m loadgen.run.worker``: a worker process of a run. It reads its job from standard input."""

from __future__ import annotations

import asyncio
import gc
import itertools
import resource
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import uvloop

from loadgen.run import messages as messages
from loadgen.run.pipe_writer import PipeWriter
from loadgen.send.sender import RequestSender
from loadgen.trace.files import read_share

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO

    from loadgen.run.messages import Job
    from loadgen.trace.request import TraceRequest

_LINES_MAX = 2000  # of results in one frame
_HELD_MAX = 100_000  # requests of a closed loop's trace
_encode = msgspec.msgpack.Encoder().encode


def main() -> int:
    # Unbuffered: a thread that waits in a buffered read would hold up the end of the process.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        line = orders.readline()
        if not line:
            return 1
        uvloop.run(_run(msgspec.json.decode(line, type=messages.Job), orders))
    return 0


async def _run(job: Job, orders: FileIO) -> None:
    loop = asyncio.get_running_loop()
    outbox = PipeWriter(sys.stdout.fileno())
    sender = RequestSender(job, _requests(job), _tls(job))
    started = loop.create_future()

    def listen() -> None:
        line = orders.readline()
        if line:
            start_s = msgspec.json.decode(line, type=messages.StartSignal).start_s
            loop.call_soon_threadsafe(started.set_result, start_s)
            while orders.readline():
                pass
            loop.call_soon_threadsafe(sender.stop)
        else:
            loop.call_soon_threadsafe(started.cancel)

    # Garbage is rare here, and collections delay requests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    threading.Thread(target=listen, daemon=True).start()
    outbox.put(messages.READY)
    cpu_before_s = _cpu_s()
    sender.start(await started)
    sweep_s = min(0.05, job.options.timeout_s / 5, job.options.send_within_s / 5)
    next_tell_s = 0.0
    while not sender.finished.is_set():
        try:
            async with asyncio.timeout(max(sweep_s, 0.002)):
                await sender.finished.wait()
        except TimeoutError:
            sender.sweep()
        if loop.time() >= next_tell_s or len(sender.record.lines) >= _LINES_MAX:
            _tell(sender, outbox)
            next_tell_s = loop.time() + job.tell_every_s
    ended_s, cpu_s = time.monotonic(), _cpu_s() - cpu_before_s
    sender.close()
    _tell(sender, outbox)
    outbox.put(messages.DONE, _encode(messages.Done(sender.left_over(), ended_s, cpu_s)))
    outbox.close()


def _tell(sender: RequestSender, outbox: PipeWriter) -> None:
    record = sender.record
    if record.lines:
        outbox.put(messages.RESULTS, b"\n".join(record.lines) + b"\n")
        record.lines.clear()
    outbox.put(messages.PROGRESS, _encode(messages.Progress(record.take(), sender.in_flight, sender.waiting)))


def _requests(job: Job) -> Iterator[tuple[int, TraceRequest]]:
    """This worker's part of the trace; in a closed loop the whole trace, repeated and renumbered."""
    if not job.options.clients:
        yield from read_share(job.trace, part=job.part, parts=job.parts)
        return
    numbers = itertools.count(job.part, job.parts)
    held = [request for _, request in itertools.islice(read_share(job.trace, part=0, parts=1), _HELD_MAX)]
    at = len(held) * job.part // job.parts  # each worker starts at another place
    if len(held) < _HELD_MAX:
        yield from zip(numbers, itertools.cycle(held[at:] + held[:at]), strict=False)
    while True:
        for _, request in read_share(job.trace, part=0, parts=1):
            yield next(numbers), request


def _tls(job: Job) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=job.options.ca or None)
    if job.options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
