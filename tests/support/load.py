"""Load from this process: pipelined bursts, and threads that send requests until stopped."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

from tests.support.raw import Closed, RawConnection

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW = 100  # requests on their way at one time


def burst(port: int, count: int, target: str = "/") -> None:
    """Send ``count`` pipelined requests on one connection; each must get a 200."""
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    with RawConnection(port) as connection:
        for start in range(0, count, WINDOW):
            size = min(WINDOW, count - start)
            connection.send(request * size)
            for _ in range(size):
                assert connection.read_reply().status == 200


class Hammer:
    """Clients that request one page after the other, each on its own connection."""

    def __init__(self, port: int, targets: Sequence[str], clients: int = 4) -> None:
        self.statuses: Counter[int] = Counter()
        self._port = port
        self._targets = targets
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._run, args=(at,)) for at in range(clients)]

    def __enter__(self) -> Hammer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def answers(self) -> int:
        """Number of complete responses so far."""
        return sum(self.statuses.values())

    def stop(self) -> int:
        """Let every client end after its response; returns the number of responses."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.answers

    def _run(self, at: int) -> None:
        while not self._stopping.is_set():
            try:
                with RawConnection(self._port) as connection:
                    while not self._stopping.is_set():
                        at += 1
                        status = connection.get(self._targets[at % len(self._targets)]).status
                        with self._lock:
                            self.statuses[status] += 1
            except Closed:
                continue
            except ConnectionError:
                return
