"""A server with all kinds of faults: each request has exactly one outcome, and each outcome occurs."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from loadgen.results import outcomes as o
from loadgen.trace.request import TraceRequest
from tests.loadgen.runs import run
from tests.support.misbehaving import OK, MisbehavingServer, Talk

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing

DENIED = b"HTTP/1.1 503 No\r\nQoS-Decision: expired\r\nContent-Length: 0\r\n\r\n"
REDIRECT = b"HTTP/1.1 307 Go\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n"


class Chaos:
    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, talk: Talk) -> None:
        with self._lock:
            choice = self._dice.randrange(14)
        if choice == 0:
            talk.reset()
        elif choice == 1:
            talk.close()
        elif choice == 2:
            talk.send(b"rubbish\r\n\r\n")
        elif choice == 3:
            talk.hang()
        elif choice == 4:
            talk.send(OK[:-1])
            talk.close()
        elif choice == 5:
            talk.send(OK + b"more")
        elif choice == 6:
            talk.send(DENIED)
        elif choice == 7:
            talk.send(REDIRECT)
        elif choice == 8:
            talk.send(OK)
            talk.close()
        elif choice == 9:
            for at in range(len(OK)):
                talk.send(OK[at : at + 1])
        else:
            talk.send(OK)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_outcome_is_lost(seed: int, tmp_path: Path) -> None:
    methods = ("GET", "GET", "POST", "OPTIONS")
    trace = [TraceRequest(at / 300, f"/{at}", methods[at % 4], "AB"[at % 2]) for at in range(600)]
    with MisbehavingServer(Chaos(seed)) as server:
        ran = run(
            tmp_path, trace, "--target", server.url, "--processes", "2", "--connections", "12", "--timeout", "700ms",
            "--send-within", "300ms",
        )  # fmt: skip
    assert ran.outcomes.keys() >= {"accepted", "denied", "failed", "unsent"}
    assert ran.causes.keys() >= {o.TIMEOUT, o.CUT_OFF}
    assert any(cause.startswith("bad answer") for cause in ran.causes)
    whole = ran.summary["all"]
    assert whole["redirects"] > 0
    assert whole["retries"] > 0
    assert ran.summary["unasked"] > 0
    for name in ("A", "B"):
        assert sum(ran.summary["classes"][name]["outcomes"].values()) == 300
