"""Limits on what one client may hold of a node's bounded resources: connections, open files, bodies in memory."""

from __future__ import annotations

from collections import Counter
from ipaddress import IPv6Address

PPM = 1_000_000


def part_of(total: int, share_ppm: int) -> int:
    """How many of ``total`` places one client may hold: at least one."""
    return max(1, total * share_ppm // PPM)


class SharedPlaces:
    """A bounded number of places. One client holds at most ``per_client_max`` of them."""

    def __init__(self, total_max: int, share_ppm: int) -> None:
        self.taken = 0
        self.total_max = total_max
        self.per_client_max = part_of(total_max, share_ppm)
        self._by_client: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        return self.taken >= self.total_max

    def has_room_for(self, client: str) -> bool:
        return not self.is_full and self._by_client[client_key(client)] < self.per_client_max

    def is_used_up_by(self, client: str) -> bool:
        """Whether the client has its whole share, and that is less than all places. (They may all be taken.)"""
        return self.per_client_max < self.total_max and self._by_client[client_key(client)] >= self.per_client_max

    def take(self, client: str) -> None:
        self.taken += 1
        self._by_client[client_key(client)] += 1

    def try_take(self, client: str) -> bool:
        """Take a place if there is room."""
        key = client_key(client) if ":" in client else client  # saves a call for most clients
        held = self._by_client.get(key, 0)
        if held >= self.per_client_max or self.taken >= self.total_max:
            return False
        self.taken += 1
        self._by_client[key] = held + 1
        return True

    def give_back(self, client: str) -> None:
        self.taken -= 1
        key = client_key(client) if ":" in client else client
        left = self._by_client[key] - 1
        if left:
            self._by_client[key] = left
        else:
            del self._by_client[key]


def client_key(client: str) -> str:
    """The key that limits apply to: an IPv4 address, or the /64 prefix of an IPv6 address."""
    if ":" not in client:
        return client
    address = IPv6Address(client.partition("%")[0])
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> 64 << 64)) + "/64"
