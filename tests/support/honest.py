"""Honest client at an address of its own: how long it waits for its responses."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from tests.support.raw import RawConnection

if TYPE_CHECKING:
    import ssl

ADDRESS = "127.0.0.2"
PER_CONNECTION = 10  # requests, so that new connections are tested as well


def waits_s(port: int, count: int, *, tls: ssl.SSLContext | None = None, target: str = "/page") -> list[float]:
    """The times of ``count`` requests, sorted. All get a 200. The first on a connection includes connecting."""
    took = []
    for _ in range(count // PER_CONNECTION):
        began = perf_counter()
        with RawConnection(port, source=ADDRESS, tls=tls) as connection:
            for _ in range(PER_CONNECTION):
                reply = connection.get(target)
                assert reply.status == 200, reply
                took.append(perf_counter() - began)
                began = perf_counter()
    return sorted(took)


def quantile(values: list[float], part: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(part * len(values)))]
