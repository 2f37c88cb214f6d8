"""State machine that the nodes of a cluster replicate: engine, release ledger and master of the multicast transport.

Each call reads the clock for the engine. The first byte of an entry tells whose it is. A snapshot has the ledger only
if there are releases, and the master only if the transport was used.
Neighbours: `membership` replicates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster import MemberStops
from qosweb.engine.replicated.compiled_policy import OtherLanguage
from qosweb.engine.replicated.entries import OtherFormat

if TYPE_CHECKING:
    from cluster import ProcessId, View
    from cluster.runtime.bulk.master_machine import MasterMachine
    from qosweb.admission.engine_driver import EngineDriver
    from qosweb.releases.ledger import ReleaseLedger

RELEASES = b"\xb1"  # first byte of the entries of the release ledger; those of the engine begin with their format
MULTICAST = b"\xb2"  # first byte of the entries of the multicast transport

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(tuple[bytes, bytes]).decode
_unpack_all = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes]).decode


class OtherVersion(MemberStops):
    """The cluster uses a format that this version does not know: this node stops, the other nodes go on."""

    def __init__(self, what: str, error: Exception) -> None:
        super().__init__(f"{what} cannot be read by this version: {error}; run the same version of qosweb on all nodes")


class NodeStateMachine:
    """Gives each entry to its part, and makes one snapshot of all parts."""

    def __init__(self, driver: EngineDriver, ledger: ReleaseLedger, transport: MasterMachine) -> None:
        self._driver = driver
        self._engine = driver.engine
        self._ledger = ledger
        self._transport = transport

    def apply(self, position: int, origin: ProcessId, body: bytes) -> object:
        if body[:1] == RELEASES:
            return self._ledger.apply(origin, body[1:])
        if body[:1] == MULTICAST:
            return self._transport.apply(position, origin, body[1:])
        self._engine.now_ms = self._driver.now_ms()
        try:
            self._engine.apply(position, origin, body)
        except (OtherFormat, OtherLanguage) as error:
            raise OtherVersion(f"entry {position} of the cluster's order, from {origin.name},", error) from None
        self._driver.applied()
        return None

    def view_changed(self, position: int, view: View) -> None:
        self._engine.now_ms = self._driver.now_ms()
        self._engine.view_changed(position, view)
        self._transport.view_changed(position, view)
        self._driver.applied()

    def snapshot(self) -> bytes:
        engine = self._engine.snapshot()
        if not self._transport.is_empty:
            return MULTICAST + _pack((engine, self._ledger.snapshot(), self._transport.snapshot()))
        return engine if self._ledger.is_empty else RELEASES + _pack((engine, self._ledger.snapshot()))

    def restore(self, state: bytes) -> None:
        self._engine.now_ms = self._driver.now_ms()
        transport = b""
        try:
            if state[:1] == MULTICAST:
                engine, ledger, transport = _unpack_all(state[1:])
            else:
                engine, ledger = _unpack(state[1:]) if state[:1] == RELEASES else (state, b"")
            self._engine.restore(engine)
            self._ledger.restore(ledger)
            if transport:
                self._transport.restore(transport)
            else:
                self._transport.clear(self._engine.replicated.view)
        except (OtherFormat, OtherLanguage, msgspec.DecodeError) as error:
            raise OtherVersion("the state of the cluster", error) from None
        self._driver.applied()
