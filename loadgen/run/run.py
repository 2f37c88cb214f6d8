"""Runs a load from start to end: turns the workers' messages into results, progress and the final summary."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from loadgen.results.outcomes import DIED
from loadgen.results.results import FirstLine
from loadgen.results.summary import RunSummary, summarise
from loadgen.results.tally import RunTally
from loadgen.run import messages as messages
from loadgen.run.worker_processes import GONE, WorkerProcesses

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from loadgen.results.results import RunFacts
    from loadgen.run.messages import Job
    from loadgen.run.progress import Display

_LOOK_EVERY_S = 0.1


class LoadRun:
    """One run. The results are written to ``to``, if given."""

    def __init__(self, jobs: Sequence[Job], facts: RunFacts, display: Display, to: BinaryIO | None) -> None:
        self._jobs = jobs
        self._facts = facts
        self._display = display
        self._to = to
        self._tally = RunTally()
        self._in_flight = [0] * len(jobs)
        self._waiting = [0] * len(jobs)
        self._done: dict[int, messages.Done] = {}
        self._interrupts = 0
        self._decode_progress = msgspec.msgpack.Decoder(messages.Progress).decode

    def go(self) -> RunSummary:
        if self._to is not None:
            self._to.write(msgspec.json.encode(FirstLine(self._facts)) + b"\n")
        try:
            start_s, died = self._attend()
        finally:
            self._display.end()
        ended_s = max((done.ended_s for done in self._done.values()), default=time.monotonic())
        not_run = sum(done.not_run for done in self._done.values())
        if not self._facts.closed_loop:
            lost = self._facts.requests - self._tally.requests - not_run
            if lost > 0 and not died:
                not_run += lost  # killed by the user's second Ctrl-C
            elif lost > 0:
                self._tally.of("-").fail(DIED, lost)
        return summarise(
            self._facts,
            self._tally,
            lasted_s=ended_s - start_s,
            not_run=not_run,
            cpu_s=sum(done.cpu_s for done in self._done.values()),
            interrupted=self._interrupts > 0,
            died=died,
        )

    def _attend(self) -> tuple[float, list[str]]:
        """Handle messages until all workers have ended. Returns the start time, and the last errors of dead workers."""
        died: list[str] = []
        with WorkerProcesses(self._jobs) as crew, self._listening_to_signals():
            start_s = crew.go()
            self._display.begin(self._facts)
            gone = told = 0
            while gone < len(self._jobs):
                if self._interrupts > told:
                    told = self._interrupts
                    crew.stop() if told == 1 else crew.kill()
                news = crew.news(_LOOK_EVERY_S)
                if news is not None:
                    if news.kind != GONE:
                        self._take(news.worker, news.kind, news.content)
                    else:
                        gone += 1
                        if news.worker not in self._done and told < 2:
                            died.append(crew.last_words(news.worker))
                self._show(time.monotonic() - start_s)
        return start_s, died

    def _take(self, worker: int, kind: bytes, content: bytes) -> None:
        if kind == messages.RESULTS:
            if self._to is not None:
                self._to.write(content)
        elif kind == messages.PROGRESS:
            progress = self._decode_progress(content)
            self._tally.add(progress.tally)
            self._display.add(progress.tally)
            self._in_flight[worker] = progress.in_flight
            self._waiting[worker] = progress.waiting
        elif kind == messages.DONE:
            self._done[worker] = msgspec.msgpack.decode(content, type=messages.Done)

    def _show(self, elapsed_s: float) -> None:
        self._display.show(elapsed_s, self._tally, sum(self._in_flight), sum(self._waiting))

    @contextlib.contextmanager
    def _listening_to_signals(self) -> Iterator[None]:
        """The first Ctrl-C ends the run with a summary; the second does not wait for responses."""

        def on_signal(*_: object) -> None:
            self._interrupts += 1

        is_main = threading.current_thread() is threading.main_thread()  # only the main thread may set handlers
        numbers = (signal.SIGINT, signal.SIGTERM) if is_main else ()
        before = {number: signal.signal(number, on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
