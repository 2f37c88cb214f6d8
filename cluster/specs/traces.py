"""Trace files: reads recorded traces, merges those of several processes, and checks the result.

A file holds one or more lives of one process. A life begins with a `Life`; each other line is an action with its time:

    {"trace":1,"process":["a",0],"boot":1,"founder":["a",0],"at":12.25}
    [12.251,"Submitted",{"ticket":1,"body":"eA=="}]

A recorder that sees all processes (the simulator) writes one file for them: each line also names the process of the
action, and crashes are actions. `python -m cluster check` reads both forms.

    [12.251,"Submitted",{"ticket":1,"body":"eA=="},["a",0]]

Lives of several processes are merged by their times, so the processes need the same clock: they run on one machine. Any
order that keeps causes before effects is as good as the real one, since actions of processes that do not hear of each
other could have happened in either order. A crash is only visible when the process begins another life, so the crash is
put there: between the two lives the process did nothing.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import msgspec

from cluster.actions import NAMES, Action, Crashed, Recovered
from cluster.names import ProcessId
from cluster.specs.checkers import Checkers
from cluster.specs.spec import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FORMAT = 1


class Life(msgspec.Struct, frozen=True):
    """The first line of a life. `founder`: the process that founded the group, if this process knows it."""

    trace: int
    process: ProcessId
    boot: int
    at: float
    founder: ProcessId | None = None


class BadTrace(Exception):
    """A file that is not a trace, or traces that do not belong together."""


class TraceLine(msgspec.Struct, array_like=True, frozen=True):
    """An action. `process`: its process, if it differs from that of the life."""

    at: float
    kind: str
    fields: msgspec.Raw
    process: ProcessId | None = None


Step = tuple[float, ProcessId, Action]

_encode = msgspec.json.Encoder().encode
_decode_life = msgspec.json.Decoder(Life).decode
_decode_line = msgspec.json.Decoder(TraceLine).decode
_DECODERS = {name: msgspec.json.Decoder(kind) for kind, name in NAMES.items()}


def life_line(life: Life) -> bytes:
    return _encode(life) + b"\n"


def action_line(at: float, action: Action, process: ProcessId | None = None) -> bytes:
    named = (at, NAMES[type(action)], action)
    return _encode(named if process is None else (*named, process)) + b"\n"


def read_trace(name: str, lines: Iterable[bytes]) -> Iterator[Step | Life]:
    """The lives and steps of one file. Accepts a truncated last line of a life, which a killed process leaves."""
    life: Life | None = None
    cut = ""
    for number, line in enumerate(lines, 1):
        begins = line.startswith(b"{")
        if cut and not (begins and life is not None):
            raise BadTrace(cut)
        cut = ""
        try:
            if begins:
                life = _decode_life(line)
                if life.trace != FORMAT:
                    raise BadTrace(f"{name}:{number}: trace format {life.trace} is not supported, only {FORMAT}")
                yield life
                continue
            found = _decode_line(line)
            action = _DECODERS[found.kind].decode(found.fields)
        except (msgspec.MsgspecError, KeyError, UnicodeDecodeError) as error:
            cut = f"{name}:{number}: not a valid trace line: {error}"
            continue
        if life is None:
            raise BadTrace(f"{name}:{number}: an action before the first line of a life, which names the process")
        yield found.at, found.process or life.process, action


def merge(files: Mapping[str, Iterable[bytes]]) -> Iterator[Step]:
    """Merges the steps of all files into one trace and adds the implied crashes."""
    streams = [_timed(name, lines) for name, lines in files.items()]
    for _, step in heapq.merge(*streams, key=lambda pair: pair[0]):
        yield step


def _timed(name: str, lines: Iterable[bytes]) -> Iterator[tuple[float, Step]]:
    before: Life | None = None
    for step in read_trace(name, lines):
        if not isinstance(step, Life):
            yield step[0], step
            continue
        if before is not None and step.process == before.process:
            yield step.at, (step.at, step.process, Crashed(disk_lost=False))
            yield step.at, (step.at, step.process, Recovered(step.boot))
        elif step.boot != 1:
            raise BadTrace(
                f"{name}: the file begins with life {step.boot} of {step.process}: the lives before it are missing"
            )
        before = step


def founder_of(files: Mapping[str, Iterable[bytes]]) -> ProcessId:
    """The process that founded the group, from the first lines of the files."""
    found = {life.founder for name, lines in files.items() for life in _lives(name, lines) if life.founder is not None}
    if len(found) != 1:
        said = ", ".join(sorted(map(str, found))) or "none"
        raise BadTrace(f"the traces must name one founder of the group, but they name: {said}")
    return found.pop()


def _lives(name: str, lines: Iterable[bytes]) -> Iterator[Life]:
    for line in lines:
        if line.startswith(b"{"):
            try:
                yield _decode_life(line)
            except msgspec.MsgspecError as error:
                raise BadTrace(f"{name}: not a valid trace line: {error}") from None


class TraceVerdict(msgspec.Struct):
    steps: int
    violation: Violation | None


def judge(founder: ProcessId, steps: Iterable[Step]) -> TraceVerdict:
    """Checks the trace against all specifications, up to the first violation."""
    checkers = Checkers(founder)
    violation = None
    try:
        for at, process, action in steps:
            checkers.observe(process, action, at)
    except Violation as found:
        violation = found
    return TraceVerdict(checkers.count, violation)
