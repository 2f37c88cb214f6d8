"""Test harness: processes on an ideal network in one thread, without delays and losses."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Image, founding_image
from cluster.layer import DeliveredRun, Effect, KnownPeers, Persist, Send
from cluster.messages import Frame
from cluster.names import ProcessId
from cluster.stack import Process
from cluster.submission_index import NO_TICKET

if TYPE_CHECKING:
    from cluster.settings import Settings

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Frame).decode


class Half:
    def random(self) -> float:
        return 0.5


class Counter:
    """A state machine of negligible cost: it counts."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, _position: int, _origin: ProcessId, _body: bytes) -> object:
        self.count += 1
        return self.count

    def view_changed(self, _position: int, _view: object) -> None:
        pass

    def snapshot(self) -> bytes:
        return b"%d" % self.count

    def restore(self, state: bytes) -> None:
        self.count = int(state)


class Ideal:
    """`wire`: frames are encoded once for all receivers and decoded. `disk`: records are written to an image."""

    def __init__(self, names: str, settings: Settings, *, wire: bool = False, disk: bool = False) -> None:
        self.now = 0.0
        self.wire = wire
        self.resolved = 0
        self.processes: dict[ProcessId, Process] = {}
        self.images: dict[ProcessId, Image] = {}
        self.machines: dict[ProcessId, Counter] = {}
        self._disk = disk
        self._frames: deque[tuple[ProcessId, ProcessId, Frame | bytes]] = deque()
        members = [ProcessId(name) for name in names]
        for me in members:
            self.images[me] = founding_image(me) if me == members[0] else Image()
            self.machines[me] = Counter()
            self.processes[me] = Process(me, settings, self.images[me], self.machines[me], Half(), is_volatile=not disk)
        for process in self.processes.values():
            process.start(self.now)
        for one in members:
            for other in members:
                if one != other:
                    self.processes[one].connected(self.now, other)
        self.settle()
        while not all(process.replica.primary and len(process.replica.primary.members) == len(members)
                      for process in self.processes.values()):  # fmt: skip
            self.pass_time(0.05)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for process in self.processes.values():
            process.tick(self.now)
        self.settle()

    def submit(self, name: str, body: bytes) -> None:
        self.processes[ProcessId(name)].submit(self.now, body)

    def settle(self) -> None:
        """Delivers frames until there are none."""
        frames, processes, wire = self._frames, self.processes, self.wire
        for me, process in processes.items():
            self._perform(me, process)
        while frames:
            sender, receiver, frame = frames.popleft()
            process = processes[receiver]
            process.received(self.now, sender, _decode(frame) if wire else frame)  # type: ignore[arg-type]
            self._perform(receiver, process)

    def _perform(self, me: ProcessId, process: Process) -> None:
        while self._do_all(me, process.take()):
            process.performed(self.now, process.context.taken)

    def _do_all(self, me: ProcessId, effects: list[Effect]) -> bool:
        """Performs the effects. Returns whether a record was written."""
        written = False
        for effect in effects:
            if type(effect) is Send:
                frame = _encode(effect.frame) if self.wire else effect.frame
                for peer in effect.to:
                    self._frames.append((me, peer, frame))
            elif type(effect) is Persist:
                if self._disk:
                    self.images[me].apply(effect.record)
                    written = True
            elif type(effect) is DeliveredRun:
                self.resolved += len(effect.tickets) - effect.tickets.count(NO_TICKET)
            else:
                assert not isinstance(effect, KnownPeers) or effect.peers
        return written
