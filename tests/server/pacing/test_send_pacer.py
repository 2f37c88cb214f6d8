"""When the pacer sends next: small responses go one by one, so that each of them may be first in the order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from qosweb.server.pacing.send_pacer import PacedFlow, SendPacer

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_BPS = 7_500_000
FIXED, SMALL, LARGE = 256, 4096, 1 << 20


class Loop:
    """Remembers the last timer."""

    def __init__(self) -> None:
        self.delay_s = 0.0

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> SimpleNamespace:  # noqa: ARG002
        self.delay_s = delay_s
        return SimpleNamespace(cancel=lambda: None)


class Response(PacedFlow):
    def __init__(self, pacer: SendPacer, size: int) -> None:
        transport: Any = SimpleNamespace(get_write_buffer_size=lambda: 0)
        permit: Any = SimpleNamespace(
            account=SimpleNamespace(name="/a", number=0), rate_bps=1_000, fixed_bytes=FIXED, lend=lambda _sent: None
        )
        super().__init__(pacer, transport, permit)
        self.left = size

    @property
    def body_left(self) -> int:
        return self.left

    @property
    def has_bytes(self) -> bool:
        return self.left > 0

    def write(self, most: int) -> int:
        size = min(most, self.left)
        self.left -= size
        if not self.left:
            self._pacer.remove(self)
        return size + FIXED


def delay_s(size: int) -> float:
    """How long the pacer waits when many responses of this size wait for tokens."""
    loop: Any = Loop()
    pacer = SendPacer(loop, RATE_BPS, lambda accounts: [1_000_000] * len(accounts))
    for _ in range(100):
        pacer.add(Response(pacer, size))
    found: float = loop.delay_s
    return found


def test_the_next_small_response_waits_for_its_own_bytes_only() -> None:
    assert delay_s(SMALL) < 1.5 * (SMALL + FIXED) / RATE_BPS + 0.001


def test_large_responses_go_in_larger_pieces() -> None:
    assert delay_s(LARGE) > 3 * (SMALL + FIXED) / RATE_BPS
