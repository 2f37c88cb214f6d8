"""Shares page accesses among all nodes within a fraction of a second, for conditions such as ``accessed(...)``.

A fact of one client does not make that of another obsolete, so facts travel in batches: each batch takes one of SLOTS
items in turn and replaces the batch that had it before. That bounds memory, and facts expire by themselves. A node that
takes nothing for longer than SLOTS * EVERY_S misses facts, and a newcomer gets those of that time.
Neighbours: `qosweb.admission.access_history` keeps the known accesses.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import msgspec

from cluster import NotDelivered, ReportsFull

if TYPE_CHECKING:
    from cluster import ReportChange, Reports
    from qosweb.server.process.node import Node

EVERY_S = 0.05
SLOTS = 60
FACTS_MAX = 300  # clients, and paths, of one batch; the newest are kept
TEXT_LEN_MAX = 16_000  # characters of all clients and paths in a batch
ACCESSES = "accesses/"  # begin of the items


Fact = TypeVar("Fact", tuple[int, str, int], tuple[str, int])


class AccessBatch(msgspec.Struct, frozen=True, array_like=True):
    """Accesses at one node. `policy`: the hash of the policy whose page sets are meant."""

    policy: str
    clients: tuple[tuple[int, str, int], ...]  # page set, client, milliseconds ago
    paths: tuple[tuple[str, int], ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(AccessBatch).decode


class AccessFacts:
    """Publishes the accesses of this node, and notes those of the others."""

    def __init__(self, node: Node, reports: Reports) -> None:
        self.dropped = 0  # facts that did not fit into a batch
        self._node = node
        self._reports = reports
        self._batches = 0
        reports.on_change(self._on_change)
        self.follow_policy()

    def follow_policy(self) -> None:
        """A policy is in force: its history collects the accesses to publish."""
        self._node.admission.accounts.classifier.accesses.is_shared = True

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self.publish()

    def publish(self) -> None:
        """Publish the accesses since the last call."""
        classifier = self._node.admission.accounts.classifier
        clients, paths = classifier.accesses.take_news()
        if not clients and not paths:
            return
        now = self._node.clock.read()
        batch = AccessBatch(
            classifier.policy_hash,
            _newest([(number, client, _ago_ms(now, at)) for (number, client), at in clients.items()]),
            _newest([(path, _ago_ms(now, at)) for path, at in paths.items()]),
        )
        self.dropped += len(clients) + len(paths) - len(batch.clients) - len(batch.paths)
        try:
            self._reports.publish(f"{ACCESSES}{self._batches % SLOTS}", _encode(batch))
            self._batches += 1
        except (NotDelivered, ReportsFull, ValueError):
            self.dropped += len(batch.clients) + len(batch.paths)

    def _on_change(self, change: ReportChange) -> None:
        if not change.item.startswith(ACCESSES) or change.sender == self._node.name:
            return
        classifier = self._node.admission.accounts.classifier
        try:
            batch = _decode(change.value)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return
        if batch.policy != classifier.policy_hash:
            return  # its page sets are others; a policy changes at all nodes within a moment
        born = self._node.clock.read() - change.age_s
        for number, client, ago_ms in islice(batch.clients, FACTS_MAX):
            classifier.accesses.learn(number, client, born - ago_ms / 1e3)
        for path, ago_ms in islice(batch.paths, FACTS_MAX):
            classifier.accesses.learn_path(path, born - ago_ms / 1e3)


def _newest(facts: list[Fact]) -> tuple[Fact, ...]:
    """The newest facts that fit into a batch. `facts` are in order, the newest last."""
    found: list[Fact] = []
    text_len = 0
    for fact in islice(reversed(facts), FACTS_MAX):
        text_len += sum(len(part) for part in fact if isinstance(part, str))
        if text_len > TEXT_LEN_MAX:
            break
        found.append(fact)
    return tuple(found)


def _ago_ms(now: float, at: float) -> int:
    return max(0, round(1e3 * (now - at)))
