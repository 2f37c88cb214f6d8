"""Content and spool of the multicast transport, in memory."""

from __future__ import annotations


class MemorySource:
    """A message of packets in memory."""

    __slots__ = ("packets",)

    def __init__(self, packets: list[bytes]) -> None:
        self.packets = packets

    @property
    def available(self) -> int:
        return len(self.packets)

    @property
    def is_ended(self) -> bool:
        return True

    def read(self, packet: int) -> bytes:
        return self.packets[packet]


class MemorySpool:
    """Packets of received messages, in memory."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: dict[int, dict[int, bytes]] = {}

    def write(self, number: int, packet: int, payload: bytes) -> None:
        self.messages.setdefault(number, {})[packet] = payload

    def read(self, number: int, packet: int) -> bytes:
        return self.messages[number][packet]

    def content(self, number: int) -> bytes:
        packets = self.messages.get(number, {})
        return b"".join(packets[at] for at in sorted(packets))
