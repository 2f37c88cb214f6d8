"""Worker processes of a run: started together, read by one thread each, stopped together.

Each worker has a thread here that reads its messages; all messages arrive in one queue. If a worker dies, the run
notices, and requests that the worker has not reported count as failed.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import msgspec

from loadgen.run import messages as messages
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadgen.run.messages import Job

_START_WITHIN_S = 60.0
_HEAD_START_S = 0.1  # between ``StartSignal`` and the first request, so that all workers receive it in time
_QUEUE_MAX = 1000
GONE = b"G"


class WorkerMessage(NamedTuple):
    """A frame of a worker; ``GONE`` is its end."""

    worker: int
    kind: bytes
    content: bytes


class WorkerProcesses:
    """``with WorkerProcesses(jobs) as workers: workers.go()``, then ``news`` until ``GONE`` came from each."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._news: queue.Queue[WorkerMessage] = queue.Queue(_QUEUE_MAX)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._errors: list[BinaryIO] = []
        self._threads: list[threading.Thread] = []
        self._leaving = False

    def __enter__(self) -> WorkerProcesses:
        try:
            for at, job in enumerate(self._jobs):
                self._start(at, job)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving = True
        self.kill()
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
        for file in self._errors:
            file.close()

    def go(self) -> float:
        """Wait until all workers are ready and start them. Returns time zero on the monotonic clock."""
        ready = 0
        while ready < len(self._jobs):
            news = self.news(_START_WITHIN_S)
            if news is None or news.kind != messages.READY:
                why = f": {self.last_words(news.worker)}" if news else ""
                raise UsageError(f"a worker process of the load generator did not start{why}")
            ready += 1
        start_s = time.monotonic() + _HEAD_START_S
        for process in self._processes:
            self._tell(process, msgspec.json.encode(messages.StartSignal(start_s)))
        return start_s

    def news(self, timeout_s: float) -> WorkerMessage | None:
        try:
            return self._news.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """Tell all workers to send no more requests."""
        for process in self._processes:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()

    def kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()

    def last_words(self, worker: int) -> str:
        """The last line of a worker's standard error."""
        file = self._errors[worker]
        file.seek(0)
        lines = file.read(1 << 16).decode("utf-8", "replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no error output")

    def _start(self, at: int, job: Job) -> None:
        errors = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the crew
        self._errors.append(errors)
        process = subprocess.Popen(
            [sys.executable, "-m", "loadgen.run.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,  # Ctrl-C is for the run, which then stops its workers
        )
        self._processes.append(process)
        self._tell(process, msgspec.json.encode(job))
        thread = threading.Thread(target=self._listen, args=(at, process), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _tell(self, process: subprocess.Popen[bytes], line: bytes) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; its reader thread notices
            process.stdin.write(line + b"\n")
            process.stdin.flush()

    def _listen(self, at: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for kind, content in messages.frames(cast("BinaryIO", process.stdout)):
            self._put(WorkerMessage(at, kind, content))
        self._put(WorkerMessage(at, GONE, b""))

    def _put(self, news: WorkerMessage) -> None:
        while not self._leaving:
            with contextlib.suppress(queue.Full):
                self._news.put(news, timeout=0.5)
                return
