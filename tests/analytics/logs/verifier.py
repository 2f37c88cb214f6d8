"""An independent verifier: the same questions as the analysis asks, in plain Python, over the lines themselves.

It shares no code with the package: it reads rules by regular expressions, knows only specifications with bounds on
single classes, and divides by its own water level. So it can be wrong only where both are wrong in the same way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any, NamedTuple

_SHARE = re.compile(r"<(\S+)>\.server_resource ([<>=]) ([0-9.]+)%( hard)?")
_EQUAL = re.compile(r"<(\S+)>\.server_resource = equal")
_ALWAYS = re.compile(r"<(\S+)>\.available = always")
_RATE = re.compile(r"<(\S+)>\.num_requests ([<>]) ([0-9]+)( \* nodes)?")
_LIFETIME = re.compile(r"set lifetime = ([0-9]+)ms")

TOLERANCE, RATE_TOLERANCE, SLACK_MS, WAITED_MS, WINDOW_S = 0.02, 0.05, 50.0, 5.0, 10


class Seen(NamedTuple):
    outcome: str
    promise: float | None = None
    got: float | None = None


class _Sums:
    def __init__(self) -> None:
        self.got: Counter[str] = Counter()
        self.count: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.all_served: Counter[str] = Counter()
        self.all_lost: Counter[str] = Counter()
        self.wait: dict[str, float] = defaultdict(float)
        self.size = 0
        self.seconds: dict[int, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))


def verify(lines: list[dict[str, Any]], specs: dict[str, str], nodes: int = 2) -> dict[tuple[str, str, int], Seen]:
    """What is to be said of (policy, rule, window)."""
    requests = [line for line in lines if "event" not in line and line["policy"] in specs]
    at = {id(line): line["ts"] + line["queue_ms"] / 1000 for line in requests}
    busy = {
        int(at[id(line)])
        for line in requests
        if line["decision"] == "expired"
        or (line["decision"] == "denied" and line["status"] != 429)
        or line["queue_ms"] >= WAITED_MS
    }
    windows: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
    seconds: dict[tuple[str, int], set[int]] = defaultdict(set)
    for line in requests:
        second = int(at[id(line)])
        key = line["policy"], second // WINDOW_S * WINDOW_S
        sums, name = windows[key], line["class"]
        served, lost = line["decision"] == "served", line["decision"] in ("denied", "expired")
        left = line["decision"] == "failed" and line["status"] == 499 and not line["bytes"] + line["service_ms"]
        held_back = lost or (left and line["queue_ms"] >= WAITED_MS)
        sums.all_served[name] += served
        sums.all_lost[name] += lost
        sums.wait[name] = max(sums.wait[name], line["queue_ms"])
        if second in busy:
            seconds[key].add(second)
            sums.got[name] += line["bytes"] if served else 0
            sums.count[name] += served
            sums.lost[name] += held_back
            sums.seconds[second][0][name] += line["bytes"] if served else 0
            sums.seconds[second][1][name] += held_back
        sums.size = max(sums.size, line["bytes"] if served else 0)
    found: dict[tuple[str, str, int], Seen] = {}
    for (policy, window), sums in windows.items():
        for rule, seen in _judge(specs[policy], sums, len(seconds[policy, window]), nodes):
            found[policy, rule, window] = seen
    return found


def _judge(spec: str, sums: _Sums, busy_s: int, nodes: int) -> list[tuple[str, Seen]]:
    rules = [line.strip() for line in spec.splitlines() if line.strip()]
    always = {match[1] for rule in rules if (match := _ALWAYS.fullmatch(rule))}
    total = sum(sums.got.values())
    left = total - sum(sums.got[name] for name in always)
    size = {name: sums.got[name] / sums.count[name] if sums.count[name] else 1000 for name in sums.all_served}
    asked = {name: sums.got[name] + sums.lost[name] * size[name] for name in sums.all_served}
    floors: dict[str, float] = {}  # parts of what is left
    ceilings: dict[str, float] = {}
    for rule in rules:
        if match := _SHARE.fullmatch(rule):
            if match[2] in ">=":
                floors[match[1]] = float(match[3]) / 100
            if match[2] in "<=":
                ceilings[match[1]] = float(match[3]) / 100
    hard: dict[str, float] = {}
    for rule in rules:
        if (match := _RATE.fullmatch(rule)) and match[2] == "<" and match[1] in asked:
            name, bound = match[1], float(match[3]) * (nodes if match[4] else 1)
            hard[name] = bound * size[name] * busy_s
            if sums.all_served[name] >= bound * WINDOW_S * (1 - RATE_TOLERANCE) - 1:
                asked[name] = sums.got[name]  # held back by its own bound, not by the others
    others = [name for name in asked if name not in always]
    expected, lowest, highest = (dict.fromkeys(others, 0.0) for _ in range(3))
    for got, lost in sums.seconds.values():  # what is not used in one second is not saved for another
        all_got = sum(got.values())
        there = all_got - sum(got[name] for name in always)
        want = {name: got[name] + (lost[name] * size[name] if asked[name] > sums.got[name] else 0) for name in others}
        least = {name: part * there for name, part in floors.items()}
        most = {name: part * there for name, part in ceilings.items()}
        due = _water(others, want, least, most, there, {name: of * all_got / total for name, of in hard.items()})
        for name in others:
            expected[name] += due[name]
            lowest[name] += min(least.get(name, 0), want[name])
            highest[name] += max(most.get(name, 0), due[name])
    fine = TOLERANCE * total
    allowed = max(fine, 2 * sums.size)
    life_s = next((float(match[1]) / 1000 for rule in rules if (match := _LIFETIME.fullmatch(rule))), 10.0)
    missed = {
        name: _gaps(expected[name], asked[name], expected[name] / size[name] / max(1, busy_s) * life_s)
        if asked[name] > sums.got[name] else 0.0
        for name in others
    }  # fmt: skip
    said: list[tuple[str, Seen]] = []
    for rule in rules:
        if match := _SHARE.fullmatch(rule):
            name = match[1]
            tested = busy_s >= WINDOW_S / 5 and asked.get(name, 0) > 0 and sums.size <= fine
            outcomes = []
            has = sums.got[name]
            if match[2] in ">=" and tested:
                promise = min(floors[name] * left, lowest[name], expected[name])
                outcomes.append(
                    Seen("held" if promise - has <= max(allowed, missed[name]) else "violated", promise, has)
                )
            if match[2] in "<=" and tested and max(asked[name], has) > ceilings[name] * left:
                limit = max(ceilings[name] * left, highest[name])
                more = sum(
                    missed[other] * expected[name] / (left - expected[other]) for other in others if other != name
                )
                outcomes.append(Seen("held" if has - limit <= max(allowed, more) else "violated", limit, has))
            said.append((rule, _worst(outcomes)))
        elif match := _EQUAL.fullmatch(rule):
            name = match[1]
            tested = busy_s >= WINDOW_S / 5 and asked.get(name, 0) > 0 and sums.size <= fine and sums.lost[name] > 0
            good = tested and expected[name] - sums.got[name] <= max(allowed, missed[name])
            said.append((rule, Seen("held" if good else "violated") if tested else Seen("not tested")))
        elif match := _ALWAYS.fullmatch(rule):
            name = match[1]
            any_asked = sums.all_served[name] + sums.all_lost[name]
            good = not sums.all_lost[name]
            said.append((rule, Seen("held" if good else "violated") if any_asked else Seen("not tested")))
        elif match := _RATE.fullmatch(rule):
            said.append((rule, _rate(match, sums, busy_s, nodes)))
        elif match := _LIFETIME.fullmatch(rule):
            wait = max(w for name, w in sums.wait.items() if name not in always)
            good = wait <= float(match[1]) + SLACK_MS
            said.append((rule, Seen("held" if good else "violated") if wait >= WAITED_MS else Seen("not tested")))
    return said


def _gaps(due: float, asked: float, answers: float) -> float:
    """What a class cannot take for want of anybody who waits: a queue for so many answers, one in service."""
    if not due:
        return 0.0
    levels = [(asked / due) ** at for at in range(int(answers) + 3)]  # how long it has so many, as a geometric series
    weight = answers % 1
    return due * ((1 - weight) / sum(levels[:-1]) + weight / sum(levels))


def _rate(match: re.Match[str], sums: _Sums, busy_s: int, nodes: int) -> Seen:
    name, bound = match[1], float(match[3]) * (nodes if match[4] else 1)
    if match[2] == "<":
        got = sums.all_served[name] / WINDOW_S
        if got <= bound and not sums.all_lost[name]:
            return Seen("not tested")
        return Seen("held" if got - bound <= RATE_TOLERANCE * bound + 1 / WINDOW_S else "violated", bound, got)
    if not busy_s or not sums.count[name] + sums.lost[name]:
        return Seen("not tested")
    got, asked = sums.count[name] / busy_s, (sums.count[name] + sums.lost[name]) / busy_s
    promise = min(bound, asked)
    return Seen("held" if promise - got <= RATE_TOLERANCE * promise + 1 / busy_s else "violated", promise, got)


def _worst(outcomes: list[Seen]) -> Seen:
    return min(outcomes, key=lambda seen: seen.outcome != "violated", default=Seen("not tested"))


def _water(
    names: list[str],
    given: dict[str, float],
    floors: dict[str, float],
    ceilings: dict[str, float],
    whole: float,
    hard: dict[str, float],
) -> dict[str, float]:
    """Floors first, then max-min within the ceilings; what is left over then, to all, in equal gains."""
    asked = {name: min(amount, max(hard.get(name, amount), 0.0)) for name, amount in given.items()}

    def at(level: float) -> dict[str, float]:
        return {
            name: min(asked[name], ceilings.get(name, whole), max(level, min(floors.get(name, 0.0), asked[name])))
            for name in names
        }

    level = _highest(lambda level: sum(at(level).values()) <= whole, whole)
    got = at(level)

    def gained(level: float) -> dict[str, float]:
        return {name: min(asked[name], got[name] + level) for name in names}

    return gained(_highest(lambda level: sum(gained(level).values()) <= whole, whole))


def _highest(fits: Any, high: float) -> float:
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
