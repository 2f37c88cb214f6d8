"""Environment of an experiment: its folder, its nodes, its loads, and the scale of durations and sizes.

A load is ``loadgen run`` in a process of its own, so that nodes can be started and stopped during it.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from loadgen.experiments.evidence import (
    DENIED,
    MOVED,
    SERVED,
    Evidence,
    log_lines,
    seen_by_client,
    seen_in_log,
)
from loadgen.experiments.judging import QUICK, STRICT, Tolerance
from loadgen.experiments.nodes import NodeProcesses
from loadgen.experiments.processes import CannotRun, end, last_line, start, wait_for
from loadgen.experiments.site import make_site, page_of
from loadgen.results.outcomes import INTERRUPTED
from loadgen.results.results_file import RunFile
from loadgen.results.summary import RunSummary
from loadgen.send.spread import parse_spread, written
from loadgen.trace.arrivals import requests, stages
from loadgen.trace.curves import CurvePiece
from loadgen.trace.files import write_trace, writing
from loadgen.trace.page_mix import MixPart
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from loadgen.experiments.evidence import LogLine
    from loadgen.trace.flash_crowds import Crowd

KB, MB = 1 << 10, 1 << 20
_SPECS = Path(__file__).resolve().parent.parent.parent / "webqos_specs" / "experiments"
_TIMEOUT_S = 60.0
_FIRST_REQUEST_S = 30.0
_INTERRUPTED = 130  # exit code of an interrupted run
_CONNECTIONS_MAX = 5000
_EVENT_S = 4.0  # usual upper limit of an event's duration
_LAST_LINES_S = 3.0  # a node writes its log in batches
_OURS = re.compile(r"cluster\.key|load\d+\..*|[a-z0-9]+\.(access\.log(\.\d+)?|said\.txt|order\.jsonl)")
_LIFETIME = re.compile(r"(?m)^set lifetime = .*$")


class Size(NamedTuple):
    """Scale of the experiments, from the command line."""

    quick: bool = False
    scale: float = 1.0  # of durations
    pipe_scale: float = 1.0  # of pipes, and of rates with them
    nodes: int = 1  # number of nodes that share the pipe of a single-node experiment
    spread: str = "even"
    seed: int = 1


class PlannedAction(NamedTuple):
    """An action during a load."""

    at_s: float
    name: str
    act: Callable[[], None]


class LoadTarget(Protocol):
    """A target of a load: a node, or a proxy in front of a node or of a simulated server; ``log`` is theirs."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def log(self) -> Path: ...


class Workbench:
    """Environment of one experiment. ``folder`` has traces, results and logs; ``say`` prints progress."""

    def __init__(self, name: str, folder: Path, size: Size, say: Callable[[str], None]) -> None:
        _clear(folder)
        self.name = name
        self.size = size
        self.say = say
        self.folder = folder
        self.began: dict[str, float] = {}  # events of the last load, in seconds of its trace
        self.happened: dict[str, float] = {}  # when each event was over
        self._loads = 0
        self._scratch = tempfile.TemporaryDirectory(prefix="loadgen-experiment-")

    def close(self) -> None:
        self._scratch.cleanup()

    @property
    def scratch(self) -> Path:
        """A temporary folder, deleted at the end."""
        return Path(self._scratch.name)

    @property
    def tolerance(self) -> Tolerance:
        return QUICK if self.size.quick else STRICT

    def lasting(self, normal_s: float, quick_s: float) -> float:
        return (quick_s if self.size.quick else normal_s) * self.size.scale

    def pipe(self, normal_bps: float) -> int:
        return int(normal_bps * self.size.pipe_scale)

    def node_names(self) -> list[str]:
        return [f"n{at + 1}" for at in range(self.size.nodes)]

    def spec(self, lifetime: str = "") -> Path:
        """The experiment's specification, optionally with another lifetime."""
        file = _SPECS / f"{self.name}.webqos"
        if not file.is_file():
            raise UsageError(f"{file}: no such specification; experiments run from a checkout of the project")
        if not lifetime:
            return file
        text = _LIFETIME.sub(f"set lifetime = {lifetime}", file.read_text("utf-8"))
        other = Path(self._scratch.name) / f"{file.stem}-{lifetime}.webqos"
        other.write_text(text, "utf-8")
        return other

    def nodes(
        self, sizes: Mapping[str, int], pipe_bps: int, *, spec: Path | None, cluster: bool = False
    ) -> AbstractContextManager[NodeProcesses]:
        """The nodes of an experiment, not started yet. ``pipe_bps`` is the pipe of one node."""
        root = make_site(Path(tempfile.mkdtemp(prefix="site-", dir=self._scratch.name)), sizes)
        common = ["--root", str(root), "--capacity", f"{pipe_bps}B/s"]
        common += ["--max-connections-per-client", str(_CONNECTIONS_MAX)]  # all clients have one address here
        common += ["--client-share", "100%"]
        common += ["--spec", str(spec)] if spec else []
        return NodeProcesses(self.folder, common, cluster=cluster)

    def load(
        self,
        targets: Sequence[LoadTarget],
        rates: Mapping[str, float],
        lasting_s: float,
        *,
        nodes: NodeProcesses,
        crowds: Sequence[Crowd] = (),
        events: Sequence[PlannedAction] = (),
        at: Sequence[str] = (),
        spread: str = "",
        like: str = "",
        after_s: float | None = None,
    ) -> Evidence:
        """Send a Poisson load with ``rates`` per second by class, distributed by ``spread`` or ``--spread``.

        Without nodes there is only what the clients saw. Loads with the same ``like`` have the same requests.
        ``after_s`` ends the load so long after the last event, because the duration of events is not known in advance.
        """
        self._loads += 1
        trace, results, summary, said = (
            self.folder / f"load{self._loads}.{kind}" for kind in ("trace.jsonl.gz", "results.jsonl.gz", "json", "txt")
        )
        mix = [MixPart(name, rate, page_of(name)) for name, rate in rates.items()]
        course = stages([CurvePiece(0.0, lasting_s, sum(rates.values()), sum(rates.values()))], mix, crowds)
        dice = random.Random(f"{self.size.seed} {like}" if like else self.size.seed * 1000 + self._loads)
        with writing(str(trace)) as file:
            write_trace(file, requests(course, mix, kind="poisson", zipf_exponent=0, method="GET", dice=dice))
        where = [word for node in targets for word in ("--target", node.url)]
        weights = parse_spread(spread or self.size.spread, len(targets)) if len(targets) > 1 else [1.0]
        command = [
            *at, sys.executable, "-m", "loadgen.cli", "run", str(trace), *where, "--out", str(results),
            "--summary", str(summary), "--quiet", "--timeout", f"{_TIMEOUT_S:g}s", "--allow-remote",
            "--spread", written(weights),
        ]  # fmt: skip
        marks = {node.name: node.log.stat().st_size if node.log.exists() else 0 for node in nodes.all}
        process = start(command, said)
        try:
            done = self._watch(process, events, targets, marks)
            code = _ended(process, after_s, lasting_s)
        except subprocess.TimeoutExpired:
            raise CannotRun("the load did not end in time") from None
        finally:
            end(process)
        if code and not (code == _INTERRUPTED and after_s is not None):
            raise CannotRun(f"the load ended with exit code {code}: {last_line(said)}")
        found = _gather(str(results), summary, [node.name for node in targets], nodes, marks, lasting_s)
        self.began = {name: when_s - found.begun_s for name, (when_s, _) in done.items()}
        self.happened = {name: when_s - found.begun_s for name, (_, when_s) in done.items()}
        return found

    def _watch(
        self,
        process: subprocess.Popen[bytes],
        events: Sequence[PlannedAction],
        targets: Sequence[LoadTarget],
        marks: Mapping[str, int],
    ) -> dict[str, tuple[float, float]]:
        """Run the events at times relative to the first logged request. Returns begin and end of each (wall clock).

        An event that takes long on a busy machine delays the later ones, so that the stages between keep their length.
        """
        if not events:
            return {}

        def begun() -> bool:
            return any(target.log.exists() and target.log.stat().st_size > marks[target.name] for target in targets)

        wait_for(lambda: begun() or process.poll() is not None or None, "the first request in a log", _FIRST_REQUEST_S)
        zero_s = time.monotonic()
        done: dict[str, tuple[float, float]] = {}
        for event in sorted(events, key=lambda event: event.at_s):
            while (left_s := zero_s + event.at_s - time.monotonic()) > 0:
                if process.poll() is not None:
                    raise CannotRun(f"the load ended before '{event.name}' at {event.at_s:g} s")
                time.sleep(min(left_s, 0.2))
            self.say(f"{event.at_s:5.1f} s  {event.name}")
            begun_s, begun_clock_s = time.time(), time.monotonic()
            event.act()
            done[event.name] = begun_s, time.time()
            zero_s += max(0.0, time.monotonic() - begun_clock_s - _EVENT_S)
        return done


def _clear(folder: Path) -> None:
    """Delete the files of an earlier run; refuse a folder with other files in it."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(folder.iterdir())
    for file in found:
        if not (file.is_file() and _OURS.fullmatch(file.name)):
            raise UsageError(
                f"{file}: is not a file of an experiment; give --out a new folder, or one of an earlier run"
            )
    for file in found:
        file.unlink()


def _ended(process: subprocess.Popen[bytes], after_s: float | None, lasting_s: float) -> int:
    """Wait for the end of a load, and interrupt it after ``after_s`` if given. Returns its exit code."""
    if after_s is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(after_s)
        process.send_signal(signal.SIGINT)
    return process.wait(lasting_s + _TIMEOUT_S + 60)


def _gather(
    results: str,
    summary: Path,
    targets: Sequence[str],
    nodes: NodeProcesses,
    marks: Mapping[str, int],
    lasting_s: float,
) -> Evidence:
    found = [result for result in RunFile(results).results() if result.cause != INTERRUPTED]
    clients = [seen_by_client(result, targets) for result in found]
    # A denial without a reason comes from a proxy in front of the node, and is in no log.
    answered = sum(
        client.outcome == SERVED or (client.outcome == DENIED and not client.reason.startswith("status "))
        for client in clients
    )
    deadline_s = time.monotonic() + _LAST_LINES_S
    while True:
        lines, bad = _read_logs(nodes, marks)
        if not nodes.all or sum(line.decision != MOVED for line in lines) >= answered or time.monotonic() > deadline_s:
            break  # complete, or a killed node lost its last lines
        time.sleep(0.1)
    if not found or (nodes.all and not lines):
        raise CannotRun("no request reached a node")
    first_s = min(result.t + result.sent_us / 1e6 for result in found)
    begun_s = min((line.ts for line in lines), default=first_s) - first_s
    told = msgspec.json.decode(summary.read_bytes(), type=RunSummary)
    if told.interrupted:
        lasting_s = max(result.t for result in found)
    late_ms = told.lateness_ms.percentiles.get("p99", 0.0)
    return Evidence(clients, [seen_in_log(line, begun_s) for line in lines], begun_s, lasting_s, late_ms, bad)


def _read_logs(nodes: NodeProcesses, marks: Mapping[str, int]) -> tuple[list[LogLine], int]:
    """The requests in the logs since ``marks``, and the number of unreadable lines."""
    found, bad = [], 0
    for node in nodes.all:
        with node.log.open("rb") as file:
            file.seek(marks.get(node.name, 0))
            for line in log_lines(file):
                if line is None:
                    bad += 1
                else:
                    found.append(line)
    return found, bad
