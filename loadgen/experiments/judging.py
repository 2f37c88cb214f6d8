"""Computes the shares of classes in time windows and compares them with the guaranteed shares. Pure.

The share of a class in a window is its part of the bytes of responses that completed in the window. The first seconds
are left out, because nothing is scarce until a queue has formed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadgen.experiments.evidence import DENIED, FAILED, MOVED, SERVED
from loadgen.experiments.findings import Check

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from loadgen.experiments.evidence import Evidence, ObservedRequest

WARM_UP_S = 2.0
HEAD_BYTES = 256  # cost of a request to a pipe besides its page


class Tolerance(NamedTuple):
    """Allowed deviation of a share, in percentage points."""

    window_s: float
    window_points: float
    whole_points: float


STRICT = Tolerance(10.0, 2.0, 1.0)
QUICK = Tolerance(float("inf"), 0.0, 4.0)  # no windows: a few seconds have too few responses


def bytes_served(rows: Iterable[ObservedRequest], begin_s: float, end_s: float) -> dict[str, int]:
    """Bytes by class of responses that completed in the window."""
    found: dict[str, int] = {}
    for row in rows:
        if row.outcome == SERVED and begin_s <= row.ended_s < end_s:
            found[row.class_name] = found.get(row.class_name, 0) + row.size
    return found


def shares(rows: Iterable[ObservedRequest], begin_s: float, end_s: float, classes: Sequence[str]) -> dict[str, float]:
    """Shares in per cent of the bytes of these classes; all 0 if there were none."""
    served = bytes_served(rows, begin_s, end_s)
    total = sum(served.get(name, 0) for name in classes)
    return {name: 100 * served.get(name, 0) / total if total else 0.0 for name in classes}


def windows(begin_s: float, end_s: float, length_s: float) -> list[tuple[float, float]]:
    """Divide a time span into complete windows."""
    count = int((end_s - begin_s + 1e-9) / length_s)
    return [(begin_s + at * length_s, begin_s + (at + 1) * length_s) for at in range(count)]


def farthest(found: Mapping[str, float], wanted: Mapping[str, float]) -> tuple[str, float]:
    """The class with the largest deviation, and its deviation in points."""
    name = max(wanted, key=lambda one: abs(found.get(one, 0.0) - wanted[one]))
    return name, found.get(name, 0.0) - wanted[name]


def judge_shares(
    rows: Sequence[ObservedRequest],
    guaranteed: Mapping[str, float],
    span_s: tuple[float, float],
    tolerance: Tolerance,
    witness: str,
    of: str = "",
) -> list[Check]:
    """Check the shares over the whole span and in every window of it."""
    begin_s, end_s = span_s
    names = list(guaranteed)
    whole = shares(rows, begin_s, end_s, names)
    name, off = farthest(whole, guaranteed)
    found = [
        Check(
            f"{witness}: each share of the bytes served{of} within {points(tolerance.whole_points)}, whole run",
            bool(names) and any(whole.values()) and abs(off) <= tolerance.whole_points,
            f"{_listed(whole)}; farthest {name} {off:+.2f}",
        )
    ]
    cut = windows(begin_s, end_s, tolerance.window_s)
    if cut:
        worst = max(
            ((*farthest(shares(rows, *window, names), guaranteed), window) for window in cut),
            key=lambda item: abs(item[1]),
        )
        found.append(
            Check(
                f"{witness}: within {points(tolerance.window_points)} in every window of {tolerance.window_s:g} s{of}",
                abs(worst[1]) <= tolerance.window_points,
                f"{len(cut)} windows; farthest {worst[0]} {worst[1]:+.2f} from {worst[2][0]:g} s to {worst[2][1]:g} s",
            )
        )
    return found


def judge_served(rows: Iterable[ObservedRequest], name: str, least_percent: float, witness: str) -> Check:
    """Check the fraction of served requests of a class."""
    served, asked = served_of(rows, name)
    percent = 100 * served / asked if asked else 0.0
    return Check(
        f"{witness}: {name} served {least_percent:g} %",
        asked > 0 and percent >= least_percent,
        f"{served} of {asked}, {percent:.2f} %",
    )


def served_of(
    rows: Iterable[ObservedRequest], name: str, span_s: tuple[float, float] = (0.0, float("inf"))
) -> tuple[int, int]:
    """Served and all requests of a class, by time of request. A redirected request counts where it arrived."""
    served = asked = 0
    for row in rows:
        if row.class_name == name and row.outcome != MOVED and span_s[0] <= row.asked_s < span_s[1]:
            asked += 1
            served += row.outcome == SERVED
    return served, asked


def count(rows: Iterable[ObservedRequest], outcome: str, span_s: tuple[float, float] = (0.0, float("inf"))) -> int:
    return sum(row.outcome == outcome and span_s[0] <= row.ended_s < span_s[1] for row in rows)


def used(rows: Iterable[ObservedRequest], span_s: tuple[float, float], pipe_bps: float) -> float:
    """Utilisation of the pipe by responses, in per cent."""
    served = [row.size + HEAD_BYTES for row in rows if row.outcome == SERVED and span_s[0] <= row.ended_s < span_s[1]]
    return 100 * sum(served) / (pipe_bps * (span_s[1] - span_s[0]))


def judge_witnesses(evidence: Evidence, lost_max: int = 0) -> Check:
    """The logs have to record exactly the responses that clients got. A killed node's log may lack its last lines."""
    by_clients, by_logs = count(evidence.clients, SERVED), count(evidence.logs, SERVED)
    return Check(
        "logs and clients count the same responses"
        + (f", except at most {lost_max} of killed nodes" if lost_max else ""),
        abs(by_clients - by_logs) <= lost_max and by_clients > 0,
        f"clients {by_clients}, logs {by_logs}",
    )


def judge_no_failures(rows: Sequence[ObservedRequest]) -> Check:
    failed = [row for row in rows if row.outcome not in (SERVED, DENIED)]
    why = ", ".join(sorted({row.reason or row.outcome for row in failed})[:3])
    return Check(
        "clients: every request was served or denied", not failed, f"{len(failed)} others{f' ({why})' if why else ''}"
    )


def failures(rows: Iterable[ObservedRequest]) -> list[ObservedRequest]:
    return [row for row in rows if row.outcome in (FAILED, "unsent")]


def points(count: float) -> str:
    return f"{count:g} point{'' if count == 1 else 's'}"


def _listed(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in found.items())
