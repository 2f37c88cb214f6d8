"""Generates one long log of many phases, each with its own policy: one window that satisfies it, one that violates it.

``PHASES`` names each fault with the rule that must be found violated. The cluster serves 100 requests a second.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.analytics.logs.truth import BEGIN_S, Log, hash_of

if TYPE_CHECKING:
    from collections.abc import Callable

PHASE_S = 20
WINDOW_S = 10
BUSY_S = 3  # of a window, unless rates are at stake
RANDOM_PHASES = 10
NOT_SIMPLE = ("=>", "* <", "before", "rest", "minority")  # what the verifier cannot judge
DIVISION = "each class gets its lower bound, the rest is divided evenly within the upper bounds"


@dataclass(frozen=True)
class Phase:
    """``good`` and ``bad`` write one window each, beginning at a given second; ``rules`` are violated in the second."""

    name: str
    spec: str
    good: Callable[[Log, int], object]
    bad: Callable[[Log, int], object]
    rules: tuple[str, ...]


def _steady(
    asked: dict[str, int], served: dict[str, int] | None = None, seconds: int = BUSY_S
) -> Callable[[Log, int], object]:
    return lambda log, at: log.run(seconds, asked, served, at)


def _one_denied(log: Log, at: int) -> None:
    log.run(BUSY_S, {"/a": 30, "default": 100}, {"/a": 30, "default": 70}, at)
    log.request(at + 2.5, "/a", "denied")


def _waits(longest_ms: float) -> Callable[[Log, int], object]:
    def write(log: Log, at: int) -> None:
        log.run(WINDOW_S, {"/a": 10, "default": 10}, None, at)
        log.request(at + 5.0, "default", queue_ms=longest_ms)
        log.request(at + 5.0, "/a", queue_ms=990.0)

    return write


def _slow(count: int) -> Callable[[Log, int], object]:
    def write(log: Log, at: int) -> None:
        log.run(WINDOW_S, {"/a": 20}, None, at)
        for number in range(count):
            log.request(at + number, "/a", service_ms=400.0)

    return write


def _accessed(denied_at: float) -> Callable[[Log, int], object]:
    """``/p`` is accessed at second 2; ``/q`` must be available until second 7."""

    def write(log: Log, at: int) -> None:
        log.run(WINDOW_S, {"/q": 10}, None, at)
        log.request(at + 2.0, "default", path="/p/x.html")
        log.request(at + denied_at, "/q", "denied")

    return write


def _linked(served: dict[str, int]) -> Callable[[Log, int], object]:
    def write(log: Log, at: int) -> None:
        for second in range(0, WINDOW_S, 2):
            log.request(at + second, "default", path="/p/x.html")
        log.run(BUSY_S, dict.fromkeys(served, 100), served, at)

    return write


def _outside(*, served: bool) -> Callable[[Log, int], object]:
    """A node alone in a view that is not primary."""

    def write(log: Log, at: int) -> None:
        log.event("view", BEGIN_S + at, "n2", index=None, view="", members=["n2"], primary=False)
        for number in range(20):
            decision = "served" if served and number == 7 else "denied"
            log.request(at + number / 4, "/a", decision, node="n2", view="")

    return write


def _given_up(log: Log, at: int) -> None:
    """No request is denied: clients of requests that are not served leave while they wait."""
    log.run(BUSY_S, {"/a": 40, "default": 60}, None, at)
    for number in range(BUSY_S * 20):
        log.request(at + number / 20, "/a", "failed", queue_ms=200.0, bytes=0)


def _up_and_down(served: int) -> Callable[[Log, int], object]:
    """The demand of ``/a`` alternates between more and less than its half: on average it is exactly its half."""

    def write(log: Log, at: int) -> None:
        for second in range(0, WINDOW_S, 2):
            log.second(at + second, {"/a": 80, "default": 100}, {"/a": served, "default": 100 - served})
            log.second(at + second + 1, {"/a": 20, "default": 100}, {"/a": 20, "default": 80})

    return write


def _timed(served: int) -> Callable[[Log, int], object]:
    """Before and after the time of the rule both classes have half, which the rule would not allow."""

    def write(log: Log, at: int) -> None:
        for second in range(WINDOW_S):
            due = served if TIMED[0] <= at + second < TIMED[1] else 50
            log.second(at + second, {"/a": 100, "default": 100}, {"/a": due, "default": 100 - due})

    return write


TIMED = (4, 16)  # seconds of the first phase, and the log begins at 8 o'clock

PHASES = (
    Phase(
        "less than a share at the time for which it is promised",
        "time in 08:00:04..08:00:16 => </a>.server_resource > 60%\n",
        _timed(60),
        _timed(50),
        ("time in 08:00:04..08:00:16 => </a>.server_resource > 60%", DIVISION),
    ),
    Phase(
        "a share short by three points",
        "</a>.server_resource > 50%\n</b>.server_resource > 30%\n",
        _steady({"/a": 100, "/b": 100, "default": 100}, {"/a": 50, "/b": 30, "default": 20}),
        _steady({"/a": 100, "/b": 100, "default": 100}, {"/a": 47, "/b": 31, "default": 22}),
        ("</a>.server_resource > 50%", DIVISION),
    ),
    Phase(
        "an upper bound passed while others lack",
        "</a>.server_resource < 20%\n",
        _steady({"/a": 90, "default": 100}, {"/a": 20, "default": 80}),
        _steady({"/a": 90, "default": 100}, {"/a": 24, "default": 76}),
        ("</a>.server_resource < 20%", DIVISION),
    ),
    Phase(
        "an exact share that is too high",
        "</a>.server_resource = 25%\n",
        _steady({"/a": 90, "default": 100}, {"/a": 25, "default": 75}),
        _steady({"/a": 90, "default": 100}, {"/a": 30, "default": 70}),
        ("</a>.server_resource = 25%", DIVISION),
    ),
    Phase(
        "one request denied that is always available",
        "</a>.available = always\n",
        _steady({"/a": 30, "default": 100}, {"/a": 30, "default": 70}),
        _one_denied,
        ("</a>.available = always",),
    ),
    Phase(
        "a wait beyond the lifetime",
        "set lifetime = 500ms\n</a>.lifetime = 1s\n",
        _waits(490.0),
        _waits(600.0),
        ("set lifetime = 500ms",),
    ),
    Phase(
        "more requests than a rate allows",
        "</a>.num_requests < 10\n",
        _steady({"/a": 15, "default": 20}, {"/a": 10, "default": 20}, WINDOW_S),
        _steady({"/a": 15, "default": 20}, {"/a": 12, "default": 20}, WINDOW_S),
        ("</a>.num_requests < 10",),
    ),
    Phase(
        "fewer requests than a rate that grows with the nodes",
        "</a>.num_requests > 20 * nodes\n",
        _steady({"/a": 60, "default": 100}, {"/a": 50, "default": 50}),
        _steady({"/a": 60, "default": 100}, {"/a": 35, "default": 65}),
        ("</a>.num_requests > 20 * nodes", DIVISION),
    ),
    Phase(
        "fewer bytes than a rate and than a part of the capacity",
        "</a>.num_bytes > 40000B/s\n</b>.num_bytes > 10% of capacity\n",
        _steady({"/a": 60, "/b": 60, "default": 100}, {"/a": 40, "/b": 30, "default": 30}),
        _steady({"/a": 60, "/b": 60, "default": 100}, {"/a": 36, "/b": 6, "default": 58}),
        ("</a>.num_bytes > 40000B/s", "</b>.num_bytes > 10% of capacity", DIVISION),
    ),
    Phase(
        "a relation that does not hold",
        "</a>.server_resource = 2 * </b>.server_resource\n",
        _steady({"/a": 100, "/b": 100}, {"/a": 66, "/b": 33}),
        _steady({"/a": 100, "/b": 100}, {"/a": 60, "/b": 40}),
        ("</a>.server_resource = 2 * </b>.server_resource", DIVISION),
    ),
    Phase(
        "equal parts that are not equal",
        "</a>.server_resource = equal\n</b>.server_resource = equal\n</c>.server_resource = equal\n",
        _steady({"/a": 60, "/b": 60, "/c": 60}, {"/a": 33, "/b": 33, "/c": 33}),
        _steady({"/a": 60, "/b": 60, "/c": 60}, {"/a": 36, "/b": 35, "/c": 29}),
        ("</c>.server_resource = equal", DIVISION),
    ),
    Phase(
        "the rest is too small",
        "</a>.server_resource < 50%\n</b>.server_resource = rest\n",
        _steady({"/a": 100, "/b": 100}, {"/a": 50, "/b": 50}),
        _steady({"/a": 100, "/b": 100}, {"/a": 56, "/b": 44}),
        ("</a>.server_resource < 50%", "</b>.server_resource = rest", DIVISION),
    ),
    Phase(
        "a hard bound passed although there is room",
        "</a>.server_resource < 30% hard\n",
        _steady({"/a": 40}, {"/a": 30}, WINDOW_S),
        _steady({"/a": 40}, {"/a": 36}, WINDOW_S),
        ("</a>.server_resource < 30% hard",),
    ),
    Phase(
        "one that comes later is served while the first lacks",
        "</a> before </b>\n",
        _steady({"/a": 120, "/b": 50}, {"/a": 100, "/b": 0}),
        _steady({"/a": 60, "/b": 100}, {"/a": 50, "/b": 50}),
        ("</a> before </b>", DIVISION),
    ),
    Phase(
        "answers that take too long",
        "</a>.response_time < 200ms\n",
        _slow(1),
        _slow(9),
        ("</a>.response_time < 200ms",),
    ),
    Phase(
        "denied within the time after an access",
        "accessed(</p>) within 5s => </q>.available = always\n",
        _accessed(8.5),
        _accessed(4.5),
        ("accessed(</p>) within 5s => </q>.available = always",),
    ),
    Phase(
        "clients who give up while they wait for their share",
        "</a>.server_resource > 50%\n</b>.server_resource < 90%\n",
        _steady({"/a": 60, "default": 60}, {"/a": 50, "default": 50}),
        _given_up,
        ("</a>.server_resource > 50%", DIVISION),
    ),
    Phase(
        "less than a share while more was asked for, where it was not on average",
        "set lifetime = 500ms\n</a>.server_resource = 50%\n</b>.server_resource < 80%\n",
        _up_and_down(50),
        _up_and_down(40),
        ("</a>.server_resource = 50%", DIVISION),
    ),
    Phase(
        "links of an accessed page get too little",
        "accessed(</p>) within 5s => links(</p>).server_resource > 20%\n",
        _linked({"default": 50, "default#links": 50}),
        _linked({"default": 85, "default#links": 15}),
        ("accessed(</p>) within 5s => links(</p>).server_resource > 20%", DIVISION),
    ),
    Phase(
        "served outside the primary view although it is to be denied there",
        "</a>.in_minority = deny\n</a>.available = always\n",
        _outside(served=False),
        _outside(served=True),
        ("</a>.in_minority = deny",),
    ),
)


# In the middle of a window: what the second serves would break the first.
SWITCHED = (("</a>.server_resource = 60%\n", 60), ("</a>.server_resource = 20%\n", 20))


# Nodes come and go in the middle of a window, and with them a bound and what there is. The fault is in the last part.
GROWN = "</a>.server_resource > 50%\n</b>.server_resource > 30%\n</c>.num_requests < 10 * nodes\n"
GROWN_ASKED = {"/a": 150, "/b": 150, "/c": 150}
GROWN_SERVED = (
    (2, {"/a": 50, "/b": 30, "/c": 20}),
    (4, {"/a": 100, "/b": 60, "/c": 40}),
    (4, {"/a": 100, "/b": 60, "/c": 40}),
    (2, {"/a": 40, "/b": 24, "/c": 36}),
)


@dataclass(frozen=True)
class Story:
    log: Log
    policies: dict[str, str]  # the hash of each phase, by name
    begins: dict[str, int]  # its first second since 1970
    simple: dict[str, str]  # policies that the verifier understands


def write_story() -> Story:
    log = Log()
    members = ("n1", "n2")
    log.view_event(BEGIN_S - 5, 1, "1:aaaa", members)
    for node in members:
        log.event("capacity", BEGIN_S - 5, "n1", index=2, of=node, capacity_bps=50_000)
    policies: dict[str, str] = {}
    begins: dict[str, int] = {}
    simple: dict[str, str] = {}
    for number, phase in enumerate(PHASES):
        begin = number * PHASE_S
        policies[phase.name] = _switch(log, phase.spec, begin, 10 + number)
        begins[phase.name] = BEGIN_S + begin
        phase.good(log, begin)
        phase.bad(log, begin + WINDOW_S)
        if all(word not in phase.spec for word in NOT_SIMPLE):
            simple[log.policy] = phase.spec
    dice = Random(7)
    for number in range(len(PHASES), len(PHASES) + RANDOM_PHASES):
        spec = _random_spec(dice, number)
        policies[f"random {number}"] = _switch(log, spec, number * PHASE_S, 10 + number)
        simple[log.policy] = spec
        for at in (number * PHASE_S, number * PHASE_S + WINDOW_S):
            _random_window(log, dice, at)
    last = (len(PHASES) + RANDOM_PHASES) * PHASE_S
    for number, (spec, served) in enumerate(SWITCHED):
        begin = last + 5 * number
        policies[f"switched {number}"] = _switch(log, spec, begin, 100 + number)
        begins[f"switched {number}"] = BEGIN_S + last
        log.run(5, {"/a": 90, "default": 100}, {"/a": served, "default": 100 - served}, begin)
    _grow(log, last + WINDOW_S, policies, begins)
    return Story(log, policies, begins, simple)


def _grow(log: Log, begin: int, policies: dict[str, str], begins: dict[str, int]) -> None:
    policies["grown"], begins["grown"] = _switch(log, GROWN, begin, 110), BEGIN_S + begin
    for node in ("n3", "n4"):
        log.event("capacity", BEGIN_S + begin, "n1", index=111, of=node, capacity_bps=50_000)
    before = 2
    for number, (nodes, served) in enumerate(GROWN_SERVED):
        at = begin + 5 * number
        if nodes != before:
            members = ("n1", "n2", "n3", "n4")[:nodes]
            log.view_event(BEGIN_S + at + 0.25, 120 + number, f"{2 + number}:bbbb", members)
            log.view = f"{2 + number}:bbbb"
        log.run(5, GROWN_ASKED, served, at)
        before = nodes


def _switch(log: Log, spec: str, begin: int, place: int) -> str:
    log.policy = hash_of(spec)
    for node in log.nodes:
        log.event("policy", BEGIN_S + begin - 0.001, node, index=place, policy=log.policy, text=spec)
    return log.policy


def _random_spec(dice: Random, number: int) -> str:
    """Random bounds on single classes that can be met together."""
    floor = dice.randrange(10, 40)
    return "".join(
        (
            f"set lifetime = {400 + number}ms\n",
            f"</a>.server_resource > {floor}%\n",
            f"</b>.server_resource < {dice.randrange(10, 40)}%\n",
            f"</c>.server_resource = {dice.randrange(10, 30)}%\n",
            "</d>.available = always\n" if dice.random() < 0.5 else f"</d>.num_requests < {dice.randrange(3, 12)}\n",
        )
    )


def _random_window(log: Log, dice: Random, at: int) -> None:
    asked = {name: dice.randrange(0, 40) for name in ("/a", "/b", "/c", "/d", "default")}
    share = {name: min(1.0, dice.random() * 1.6) for name in asked}
    for second in range(0, WINDOW_S, 2):
        served = {name: int(count * share[name]) for name, count in asked.items()}
        log.second(at + second, asked, asked if dice.random() < 0.2 else served)
    if dice.random() < 0.5:
        log.request(at + 3.0, "/a", "expired", queue_ms=float(dice.randrange(300, 600)))
