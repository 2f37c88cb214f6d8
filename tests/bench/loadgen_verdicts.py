"""Verdicts of `./dev bench loadgen`: medians with their spread, and whether goals are met.

Two rules were fixed before any verdict (the rule on other programs after a first, aborted run had met one):

- A measurement in which a core stood still for more than half a per cent of the time is disturbed and excluded, for
  either tool: p99 rests on one per cent of the requests, and a stall may then be half of them. The same holds if other
  programs took more than a tenth of a core, which they share with one of the two measured processes. The result of all
  rounds, including the disturbed ones, is printed beside it. Where fewer than a third of a tool's measurements are
  undisturbed, none is excluded, and the verdict is that of all rounds.
- A verdict is about the difference of medians. It is settled if a 95 % interval of that difference (bootstrap over
  rounds) is on one side of the allowed difference, and is called unsettled otherwise, met or missed.
"""

from __future__ import annotations

import random
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.loadgen_rounds import CLOSED, OPEN, WRK, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

SAME_RATIO, SAME_MS = 0.10, 0.2
GOAL = f"within {SAME_RATIO:.0%} or {SAME_MS} ms"
RESTLESS, OTHERS_MAX = 0.005, 0.10
CALM_MIN = 1 / 3
VERDICT = {True: "met", False: "MISSED"}
_RESAMPLED = 2000

Found = dict[str, list[Seen]]


class Difference(NamedTuple):
    """Difference of medians, ours minus wrk's, in milliseconds."""

    theirs: float
    ours: float
    least: float  # the 95 % interval of the difference
    most: float

    @property
    def allowed(self) -> float:
        return max(SAME_RATIO * self.theirs, SAME_MS)

    @property
    def met(self) -> bool:
        return abs(self.ours - self.theirs) <= self.allowed

    @property
    def settled(self) -> bool:
        within = [abs(end) <= self.allowed for end in (self.least, self.most)]
        return all(within) if self.met else not any(within) and self.least * self.most > 0

    def __str__(self) -> str:
        verdict = VERDICT[self.met] + ("" if self.settled else ", not settled")
        return f"{self.ours - self.theirs:+.3f} ({self.least:+.3f} to {self.most:+.3f})  goal {GOAL}  {verdict}"


def difference(theirs: Sequence[float], ours: Sequence[float]) -> Difference:
    dice = random.Random(1)
    again = sorted(
        statistics.median(dice.choices(ours, k=len(ours))) - statistics.median(dice.choices(theirs, k=len(theirs)))
        for _ in range(_RESAMPLED)
    )
    ends = again[int(0.025 * _RESAMPLED)], again[int(0.975 * _RESAMPLED)]
    return Difference(statistics.median(theirs), statistics.median(ours), *ends)


def quartiles(values: Sequence[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def calm(seen: list[Seen]) -> list[Seen]:
    return [one for one in seen if one.stood_still <= RESTLESS and one.others <= OTHERS_MAX]


def judged(found: Found) -> list[dict[str, Any]]:
    """Verdicts from the undisturbed rounds, and from all rounds."""
    left = {name: calm(seen) for name, seen in found.items()}
    print(f"\nrestless (a core stood still for more than {RESTLESS:.1%} of the time, or other programs took more than "
          f"{OTHERS_MAX:.0%} of one), and the most that the host took:")  # fmt: skip
    for name, seen in found.items():
        stolen = max(one.stolen for one in seen)
        print(f"  {name:<10} {len(seen) - len(left[name])} of {len(seen)}, {stolen:.1%}")
    verdicts = []
    if any(len(left[name]) < CALM_MIN * len(seen) for name, seen in found.items()):
        print("too few undisturbed measurements: none is excluded")
    else:
        verdicts += _judged("calm rounds", left, counts=True)
    return verdicts + _judged("all rounds", found, counts=not verdicts)


def missed(verdicts: Sequence[dict[str, Any]]) -> list[str]:
    """The figures that count and missed their goal."""
    return [verdict["figure"] for verdict in verdicts if verdict.get("counts", True) and not verdict["met"]]


def _judged(which: str, found: Found, *, counts: bool) -> list[dict[str, Any]]:
    print(f"\n{which}, medians (and quartiles) in ms since sent" + ("" if counts else ", for comparison"))
    known = {name: [one for one in seen if one.wire_p99_ms is not None] for name, seen in found.items()}
    verdicts = _same(which, found)
    if all(known.values()):
        verdicts += _true(which, known)
    else:
        print("cannot capture packets here (needs Linux and root): true latencies are unknown")
    return [{**verdict, "counts": counts} for verdict in verdicts]


def _same(which: str, found: Found) -> list[dict[str, Any]]:
    """Compares with wrk."""
    verdicts: list[dict[str, Any]] = []
    counted = {"each by its own word": "sent"}
    if all(one.wire_p99_ms is not None for seen in found.values() for one in seen):
        counted["both on the wire"] = "wire"
    for how, kind in counted.items():
        for percent in ("p50", "p99"):
            values = {name: [getattr(one, f"{kind}_{percent}_ms") for one in seen] for name, seen in found.items()}
            print(f"{how}, {percent}: wrk {quartiles(values[WRK])}")
            for name in (CLOSED, OPEN):
                found_difference = difference(values[WRK], values[name])
                print(f"    loadgen, {name:<10} {quartiles(values[name])}  {found_difference}")
                verdicts.append(_verdict(f"{which}, {how}, {name}, {percent} beside wrk", found_difference))
    return verdicts


def _true(which: str, found: Found) -> list[dict[str, Any]]:
    """Compares with the wire: each tool's own error, round by round, on the requests that it sent."""
    verdicts: list[dict[str, Any]] = []
    print("beside the wire, each in its own rounds; the error in the median and in the worst of them")
    for percent in ("p50", "p99"):
        for name in (WRK, CLOSED, OPEN):
            pairs = [(getattr(one, f"wire_{percent}_ms"), getattr(one, f"sent_{percent}_ms")) for one in found[name]]
            errors = [said - true for true, said in pairs]
            wrong = sum(abs(said - true) > max(SAME_RATIO * true, SAME_MS) for true, said in pairs)
            worst = max(errors, key=abs)
            who = name if name == WRK else f"loadgen, {name}"
            met = abs(statistics.median(errors)) <= max(SAME_RATIO * statistics.median(t for t, _ in pairs), SAME_MS)
            ended = f"  goal {GOAL}  {VERDICT[met]}" if name != WRK else ""
            print(f"    {percent} {who:<20} wire {quartiles([true for true, _ in pairs])}  "
                  f"{statistics.median(errors):+.3f}, {worst:+.3f}; off in {wrong} of {len(pairs)}{ended}")  # fmt: skip
            if name != WRK:
                figure = f"{which}, {name}, {percent} beside the wire"
                verdicts.append({"figure": figure, "error_ms": statistics.median(errors), "worst_ms": worst,
                                 "rounds_wrong": wrong, "goal": GOAL, "met": met})  # fmt: skip
    queued = "; ".join(f"{name} {statistics.median(one.ahead_p99 or 0 for one in found[name]):.0f}" for name in found)
    print(f"requests on their way when another one passed, p99: {queued}")
    return verdicts


def _verdict(figure: str, found: Difference) -> dict[str, Any]:
    interval_ms = [found.least, found.most]
    return {"figure": figure, "wrk_ms": found.theirs, "loadgen_ms": found.ours, "interval_ms": interval_ms,
            "goal": GOAL, "met": found.met, "settled": found.settled}  # fmt: skip
