"""Independent verifier: computes the same verdicts as the analysis in plain Python, over the lines themselves.

It shares no code with the package: it reads rules by regular expressions, supports only specifications with bounds on
single classes, and divides by its own water level. So an error stays undetected only if both make it in the same way.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any, NamedTuple

_SHARE = re.compile(r"<(\S+)>\.(?:server_resource|num_bytes) ([<>=]) ([0-9.]+)%(?: of capacity)?( hard)?")
_EQUAL = re.compile(r"<(\S+)>\.server_resource = equal")
_ALWAYS = re.compile(r"<(\S+)>\.available = always")
_RATE = re.compile(r"<(\S+)>\.num_(requests|bytes) ([<>]) ([0-9]+)(?:B/s)?( \* nodes)?")
_LIFETIME = re.compile(r"(?:set |<(\S+)>\.)lifetime = ([0-9]+)(ms|s)")
_RESPONSE = re.compile(r"<(\S+)>\.response_time < ([0-9]+)(ms|s)")

RATE_TOLERANCE, SLACK_MS, WAITED_MS, SLOW_PART, LIFETIME_MS = 0.05, 50.0, 5.0, 0.01, 10_000.0
ENDED = ("served", "denied", "expired", "failed")


class Given(NamedTuple):
    """The options of an analysis."""

    tolerance: float = 0.02
    window_s: int = 10
    request_cost: int = 0
    skip_s: int = 0


USUAL = Given()


class Seen(NamedTuple):
    """Expected verdict. ``kind`` is the suffix of the analysis' verdict kind; empty if the rule has only one."""

    outcome: str
    promise: float | None = None
    got: float | None = None
    kind: str = ""


class _Sums:
    """Sums of one window; fields without ``all`` cover the contended seconds only."""

    def __init__(self) -> None:
        self.got: Counter[str] = Counter()  # bytes, and what each request costs besides
        self.count: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.all_got: Counter[str] = Counter()
        self.all_bytes: Counter[str] = Counter()
        self.all_served: Counter[str] = Counter()
        self.all_lost: Counter[str] = Counter()
        self.all_held_back: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.wait: dict[str, float] = defaultdict(float)
        self.took: dict[str, list[float]] = defaultdict(list)
        self.size: dict[str, int] = defaultdict(int)
        self.seconds: dict[int, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))


def verify(
    lines: list[dict[str, Any]], specs: dict[str, str], given: Given = USUAL
) -> dict[tuple[str, str, int], Seen]:
    """Expected verdicts by (policy, rule, window)."""
    every = [line for line in lines if "event" not in line]
    at = {id(line): int(line["ts"] + line["queue_ms"] / 1000) for line in every}
    first = min(at.values()) + given.skip_s
    requests = [
        line for line in every
        if line["policy"] in specs and line["decision"] in ENDED and at[id(line)] >= first
    ]  # fmt: skip
    refused = {id(line) for line in requests if line["decision"] == "denied" and line["status"] == 429}
    lost = {id(line) for line in requests if line["decision"] in ("denied", "expired")} - refused
    held_back = lost | {
        id(line) for line in requests
        if line["decision"] == "failed" and line["status"] == 499 and not line["bytes"]
        and line["service_ms"] < 1 and line["queue_ms"] >= WAITED_MS
    }  # fmt: skip
    busy = {at[id(line)] for line in requests if id(line) in held_back or line["queue_ms"] >= WAITED_MS}
    windows: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
    for line in requests:
        second, number = at[id(line)], id(line)
        sums, name = windows[line["policy"], second // given.window_s * given.window_s], line["class"]
        served = line["decision"] == "served"
        done = served or (line["decision"] == "failed" and number not in held_back)
        has = line["bytes"] + given.request_cost if done else 0
        sums.all_got[name] += has
        sums.all_bytes[name] += line["bytes"] if done else 0
        sums.all_served[name] += served
        sums.all_lost[name] += number in lost
        sums.all_held_back[name] += number in held_back
        sums.refused[name] += number in refused
        sums.wait[name] = max(sums.wait[name], line["queue_ms"])
        sums.size[name] = max(sums.size[name], line["bytes"] if done else 0)
        if served:
            sums.took[name].append(line["service_ms"])
        if second in busy:
            sums.got[name] += has
            sums.count[name] += served
            sums.done[name] += done
            sums.lost[name] += number in held_back
            sums.seconds[second][0][name] += has
            sums.seconds[second][1][name] += number in held_back
    found: dict[tuple[str, str, int], Seen] = {}
    for (policy, window), sums in windows.items():
        for rule, seen in _judge(specs[policy], sums, given, *_means(lines, window)):
            found[policy, rule, window] = seen
    return found


def _means(lines: list[dict[str, Any]], at_s: float) -> tuple[int, float | None]:
    """Number of nodes, and their total capacity, if all have reported theirs."""
    events = sorted((line for line in lines if "event" in line and line["ts"] <= at_s), key=lambda line: line["ts"])
    members: list[str] = []
    capacity: dict[str, float] = {}
    for event in events:
        if event["event"] == "view" and event["primary"]:
            members = event["members"]
        elif event["event"] == "capacity":
            capacity[event.get("of", event["node"])] = event["capacity_bps"]
    known = [capacity[node] for node in members if node in capacity]
    return max(1, len(members)), sum(known) if known and len(known) == len(members) else None


def _ms(number: str, unit: str) -> float:
    return float(number) * (1000 if unit == "s" else 1)


def _judge(spec: str, sums: _Sums, given: Given, nodes: int, capacity: float | None) -> list[tuple[str, Seen]]:
    rules = [rule for line in spec.splitlines() if (rule := line.partition("#")[0].strip())]
    always = {match[1] for rule in rules if (match := _ALWAYS.fullmatch(rule))}
    busy_s = len(sums.seconds)
    total = float(sum(sums.got.values()))
    left = total - sum(sums.got[name] for name in always)
    any_size = total / max(1, sum(sums.done.values())) or 1000.0
    size = {name: sums.got[name] / sums.done[name] if sums.done[name] else any_size for name in sums.all_got}
    asked = {name: sums.got[name] + (name not in always) * sums.lost[name] * size[name] for name in sums.all_got}
    floors: dict[str, float] = {}  # parts of what is left
    ceilings: dict[str, float] = {}
    never_more: dict[str, float] = {}
    for rule in rules:
        if match := _SHARE.fullmatch(rule):
            if match[2] in ">=":
                floors[match[1]] = float(match[3]) / 100
            if match[2] in "<=":
                (never_more if match[4] else ceilings)[match[1]] = float(match[3]) / 100
    rate_floors: dict[str, float] = {}  # bytes
    hard: dict[str, float] = {}
    for rule in rules:
        if (match := _RATE.fullmatch(rule)) and match[1] in asked:
            name, bound = match[1], float(match[4]) * (nodes if match[5] else 1)
            counted = match[2] == "requests"
            of_busy = bound * (size[name] if counted else 1) * busy_s
            if match[3] == ">":
                rate_floors[name] = of_busy
                continue
            hard[name] = of_busy
            has = sums.all_served[name] if counted else sums.all_bytes[name]
            if has >= bound * given.window_s * (1 - RATE_TOLERANCE) - 1:
                asked[name] = sums.got[name]  # held back by its own bound, not by the others
    others = [name for name in asked if name not in always]
    expected, lowest, highest = (dict.fromkeys(others, 0.0) for _ in range(3))
    for got, lost in sums.seconds.values():  # what is not used in one second is not saved for another
        all_got = sum(got.values())
        if not all_got:
            continue
        there = all_got - sum(got[name] for name in always)
        want = {name: got[name] + (lost[name] * size[name] if asked[name] > sums.got[name] else 0) for name in others}
        bounds = {name: part * there for name, part in floors.items()}
        least = bounds | {name: of * all_got / total for name, of in rate_floors.items()}
        most = {name: part * there for name, part in ceilings.items()}
        caps = {name: of * all_got / total for name, of in hard.items()}
        caps |= {name: part * there for name, part in never_more.items()}
        due = _water(others, want, least, most, there, caps)
        for name in others:
            expected[name] += due[name]
            lowest[name] += min(bounds.get(name, 0), want[name])
            highest[name] += max(most.get(name, 0), due[name])
    lives = {match[1]: _ms(match[2], match[3]) for rule in rules if (match := _LIFETIME.fullmatch(rule))}
    life_s = {name: lives.get(name, lives.get(None, LIFETIME_MS)) / 1000 for name in others}
    grain = {name: max(sums.size[name] + given.request_cost, size[name]) for name in asked}
    fine = given.tolerance * total
    missed = {
        name: _gaps(expected[name], asked[name], expected[name] / size[name] / max(1, busy_s) * life_s[name])
        if asked[name] > sums.got[name] else 0.0
        for name in others
    }  # fmt: skip

    def is_tested(name: str) -> bool:
        return busy_s >= given.window_s / 5 and asked.get(name, 0) > 0 and grain[name] <= fine

    said: list[tuple[str, Seen]] = []
    for rule in rules:
        if (match := _SHARE.fullmatch(rule)) and match[4]:
            said.append(
                (rule, _never_more(match[1], never_more[match[1]], sums, always, asked, grain, capacity, given))
            )
        elif match:
            name = match[1]
            outcomes = []
            has = sums.got[name]
            if match[2] in ">=" and is_tested(name):
                promise = min(floors[name] * left, lowest[name], expected[name])
                allowed = max(fine, 2 * grain[name], missed[name])
                outcomes.append(Seen("held" if promise - has <= allowed else "violated", promise, has, "at least"))
            if match[2] in "<=" and is_tested(name) and max(asked[name], has) > ceilings[name] * left:
                limit = max(ceilings[name] * left, highest[name])
                more = sum(
                    missed[other] * expected[name] / (left - expected[other])
                    for other in others
                    if other != name and expected[other] < left
                )
                allowed = max(fine, 2 * grain[name], more)
                outcomes.append(Seen("held" if has - limit <= allowed else "violated", limit, has, "at most"))
            said.append((rule, _worst(outcomes)))
        elif match := _EQUAL.fullmatch(rule):
            name = match[1]
            tested = is_tested(name) and sums.lost[name] > 0
            good = tested and expected[name] - sums.got[name] <= max(fine, 2 * grain[name], missed[name])
            said.append((rule, Seen("held" if good else "violated") if tested else Seen("not tested")))
        elif match := _ALWAYS.fullmatch(rule):
            name = match[1]
            any_asked = sums.all_served[name] + sums.all_lost[name]
            good = not sums.all_lost[name]
            said.append((rule, Seen("held" if good else "violated") if any_asked else Seen("not tested")))
        elif match := _RATE.fullmatch(rule):
            said.append((rule, _rate(match, sums, asked, grain, expected, nodes, given)))
        elif match := _LIFETIME.fullmatch(rule):
            own = [match[1]] if match[1] else [name for name in others if name not in lives]
            wait, most_ms = max((sums.wait[name] for name in own), default=0.0), _ms(match[2], match[3])
            text = rule if match[1] else f"set lifetime = {most_ms:.0f}ms"
            if any(name in sums.all_got for name in own):
                good = wait <= most_ms + SLACK_MS
                seen = Seen("held" if good else "violated", most_ms, wait)
                said.append((text, seen if wait >= WAITED_MS else Seen("not tested")))
        elif match := _RESPONSE.fullmatch(rule):
            took = sums.took[match[1]]
            slow = sum(one > _ms(match[2], match[3]) + SLACK_MS for one in took)
            good = slow <= SLOW_PART * len(took)
            seen = Seen("held" if good else "violated", SLOW_PART * len(took), slow)
            said.append((rule, seen if took else Seen("not tested")))
    return said


def _never_more(
    name: str, part: float, sums: _Sums, always: set[str], asked: dict[str, float], grain: dict[str, float],
    capacity: float | None, given: Given,
) -> Seen:  # fmt: skip
    """A hard bound is a part of the capacity, which must be known here, contended or not."""
    assert capacity is not None, "the verifier knows hard bounds only where the log tells the capacity"
    whole = capacity * given.window_s
    limit = part * (whole - sum(sums.all_got[one] for one in always))
    has = sums.all_got[name]
    if has + asked.get(name, 0) - sums.got[name] <= limit:
        return Seen("not tested")
    return Seen("held" if has - limit <= max(given.tolerance * whole, grain[name]) else "violated", limit, has)


def _gaps(due: float, asked: float, answers: float) -> float:
    """The amount that a class loses while its queue is empty: a bounded queue of responses, one in service."""
    if not due:
        return 0.0
    levels = [(asked / due) ** at for at in range(int(answers) + 3)]  # how long it has so many, as a geometric series
    weight = answers % 1
    return due * ((1 - weight) / sum(levels[:-1]) + weight / sum(levels))


def _rate(
    match: re.Match[str], sums: _Sums, asked_bytes: dict[str, float], grain: dict[str, float],
    expected: dict[str, float], nodes: int, given: Given,
) -> Seen:  # fmt: skip
    name, bound = match[1], float(match[4]) * (nodes if match[5] else 1)
    counted, busy_s = match[2] == "requests", len(sums.seconds)
    if match[3] == "<":
        got = (sums.all_served if counted else sums.all_bytes)[name] / given.window_s
        if got <= bound and not sums.all_held_back[name] + sums.refused[name]:
            return Seen("not tested")
        most = bound * (1 + RATE_TOLERANCE) + (1 if counted else grain[name]) / given.window_s
        return Seen("held" if got <= most else "violated", bound, got)
    if not busy_s or not sums.count[name] + sums.lost[name]:
        return Seen("not tested")
    per_request = asked_bytes[name] / (sums.count[name] + sums.lost[name])
    got = (sums.count if counted else sums.got)[name] / busy_s
    asked = (sums.count[name] + sums.lost[name] if counted else asked_bytes[name]) / busy_s
    wanted = min(bound, asked) * busy_s * (per_request if counted else 1)
    promise = min(bound, asked) * min(1.0, expected[name] / wanted)  # less, where not all bounds fit together
    least = promise * (1 - RATE_TOLERANCE) - (1 if counted else grain[name]) / busy_s
    return Seen("held" if got >= least else "violated", promise, got)


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
    """Floors first, then max-min within the ceilings; the remaining capacity goes to all, in equal gains."""
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
