"""Progress display of a run on standard error: a live table in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol, TextIO

from loadgen.results.histogram import Histogram
from loadgen.results.outcomes import ACCEPTED, OUTCOMES
from loadgen.results.tally import ClassTally, RunTally
from qosweb.units import format_ms

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from loadgen.results.results import RunFacts

_ROWS_MAX = 20


class Display(Protocol):
    """Receives all progress, and decides when to show it."""

    def begin(self, facts: RunFacts) -> None: ...

    def add(self, increment: RunTally) -> None: ...

    def show(self, elapsed_s: float, total: RunTally, in_flight: int, waiting: int) -> None: ...

    def end(self) -> None: ...


def make_display(*, quiet: bool, every_s: float | None = None, to: TextIO | None = None) -> Display:
    to = to or sys.stderr
    if quiet:
        return SilentDisplay()
    if to.isatty():
        return LiveDisplay(to, every_s or 0.5)
    return PlainDisplay(to, every_s or 5.0)


class SilentDisplay:
    """Shows nothing."""

    def begin(self, facts: RunFacts) -> None: ...

    def add(self, increment: RunTally) -> None: ...

    def show(self, elapsed_s: float, total: RunTally, in_flight: int, waiting: int) -> None: ...

    def end(self) -> None: ...


class _Window:
    """Counts since the last output."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._begun_s = 0.0
        self.tally = RunTally()

    def is_over(self, elapsed_s: float) -> bool:
        return elapsed_s - self._begun_s >= self._every_s

    def take(self, elapsed_s: float) -> tuple[RunTally, float]:
        taken, lasted_s = self.tally, elapsed_s - self._begun_s
        self.tally = RunTally()
        self._begun_s = elapsed_s
        return taken, lasted_s


class PlainDisplay:
    """A line every few seconds."""

    def __init__(self, to: TextIO, every_s: float) -> None:
        self._to = to
        self._window = _Window(every_s)
        self._closed_loop = False
        self._requests = 0

    def begin(self, facts: RunFacts) -> None:
        self._closed_loop = facts.closed_loop
        self._requests = facts.requests
        what = f"for {facts.duration_s:g} s" if facts.closed_loop else f"{facts.requests} requests"
        print(f"loadgen: {what} to {', '.join(facts.targets)}", file=self._to, flush=True)

    def add(self, increment: RunTally) -> None:
        self._window.tally.add(increment)

    def show(self, elapsed_s: float, total: RunTally, in_flight: int, waiting: int) -> None:
        if not self._window.is_over(elapsed_s):
            return
        done = f"{total.requests} of {self._requests}" if self._requests else str(total.requests)
        recent, lasted_s = self._window.take(elapsed_s)
        whole = recent.whole()
        latency = Histogram(whole.latency_us)
        parts = [f"{elapsed_s:7.1f} s  {done}  {whole.requests / lasted_s:8.1f}/s"]
        parts += [f"{name} {whole.count(name)}" for name in OUTCOMES if whole.count(name) or name == ACCEPTED]
        if latency.counts:
            parts.append(f"p50 {format_ms(latency.percentile(50))}  p99 {format_ms(latency.percentile(99))}")
        if not self._closed_loop:
            parts.append(f"late p99 {format_ms(Histogram(recent.late_us).percentile(99))}")
        parts.append(f"in flight {in_flight}  waiting {waiting}")
        print("  ".join(parts), file=self._to, flush=True)
        if recent.classes.keys() - {"-"}:
            by_class = [f"{name} {_counted(recent.classes[name])}" for name in sorted(recent.classes)[:_ROWS_MAX]]
            print(f"{'':11}{'; '.join(by_class)}", file=self._to, flush=True)

    def end(self) -> None: ...


def _counted(tally: ClassTally) -> str:
    return ", ".join(f"{outcome} {count}" for outcome in OUTCOMES if (count := tally.count(outcome)))


class LiveDisplay:
    """A table that is redrawn."""

    def __init__(self, to: TextIO, every_s: float) -> None:
        self._to = to
        self._window = _Window(every_s)
        self._facts: RunFacts | None = None
        self._live: Live | None = None

    def begin(self, facts: RunFacts) -> None:
        from rich.console import Console
        from rich.live import Live

        self._facts = facts
        self._live = Live(console=Console(file=self._to), auto_refresh=False, transient=True)
        self._live.start()

    def add(self, increment: RunTally) -> None:
        self._window.tally.add(increment)

    def show(self, elapsed_s: float, total: RunTally, in_flight: int, waiting: int) -> None:
        if self._live is None or not self._window.is_over(elapsed_s):
            return
        recent, lasted_s = self._window.take(elapsed_s)
        self._live.update(self._table(elapsed_s, recent, lasted_s, total, in_flight, waiting), refresh=True)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _table(
        self, elapsed_s: float, recent: RunTally, lasted_s: float, total: RunTally, in_flight: int, waiting: int
    ) -> Group:
        from rich.console import Group
        from rich.markup import escape
        from rich.table import Table
        from rich.text import Text

        assert self._facts is not None
        facts = self._facts
        progress = f"{elapsed_s:.0f} s of {facts.duration_s:.0f} s"
        if not facts.closed_loop:
            progress += f", {total.requests} of {facts.requests} requests"
        late = "" if facts.closed_loop else f"   late p99 {format_ms(Histogram(recent.late_us).percentile(99))}"
        table = Table()
        whole = total.whole()
        shown = [name for name in OUTCOMES if whole.count(name) or name == ACCEPTED]
        for head in ("class", "now/s", *shown, "p50 now", "p99 now"):
            table.add_column(head, justify="left" if head == "class" else "right")
        rows = [("all", whole, recent.whole())]
        names = sorted(total.classes)
        if names != ["-"]:
            rows += [(name, total.classes[name], recent.of(name)) for name in names[:_ROWS_MAX]]
        for name, so_far, now in rows:
            latency = Histogram(now.latency_us)
            table.add_row(
                escape(name),
                f"{now.requests / lasted_s:.1f}",
                *(str(so_far.count(outcome)) for outcome in shown),
                *(format_ms(latency.percentile(p)) if latency.counts else "-" for p in (50, 99)),
            )
        if len(names) > _ROWS_MAX:
            table.add_row(f"and {len(names) - _ROWS_MAX} more classes")
        return Group(
            Text(f"{progress} to {', '.join(facts.targets)}"),
            table,
            Text(f"in flight {in_flight}   waiting {waiting}{late}   Ctrl-C ends it with a summary"),
        )
