"""Groups sums by slot into windows, and divides a window where its policy or situation changed. Pure.

A slot is contended if a request in it was denied for lack of capacity, expired, was given up by its client, or waited,
or if an event says that its resource was contended.
The sums of a window keep the contended slots apart. Each contended slot is also kept by itself, because capacity that
is unused in one slot is not saved for the next.
Neighbours: ``slot_sums`` aggregates lines by slot, ``situations`` says which rules held when, ``verdicts`` judges the
parts.
"""

from __future__ import annotations

from bisect import bisect_right
from statistics import mode
from typing import TYPE_CHECKING, Any, NamedTuple

from qosweb.analytics.judge.situations import MIXED
from qosweb.analytics.read.pools import NODES
from qosweb.analytics.read.rows import ClassAmount, ClassSums, ContendedSlot, Part, PartKey
from qosweb.analytics.read.slot_sums import BINS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from qosweb.analytics.judge.situations import Situations, SlotSpan
    from qosweb.analytics.read.pools import Pools
    from qosweb.analytics.read.rows import AnalysisLimits


class SlotRow(NamedTuple):
    """Sums of one class in one slot, a row of ``slot_sums.by_slot``."""

    slot: int
    policy: str
    scope: str
    name: str
    served: int
    denied: int
    expired: int
    failed: int
    gave_up: int
    refused: int
    sent_bytes: int
    waited: int
    size_max: int
    wait_ms_max: float
    resource: str = ""  # an upstream server, or a pool of servers
    work: float = 0.0  # slot time there, in milliseconds
    work_max: float = 0.0
    backlog: int = 0  # see ``slot_sums.backlog``
    backlog_before: int = 0
    slow: tuple[int, ...] = ()

    @property
    def held_back(self) -> int:
        return self.denied + self.expired + self.gave_up


def slot_rows(rows: Iterable[tuple[Any, ...]]) -> list[SlotRow]:
    known = len(SlotRow._fields) - 1
    return [SlotRow._make((*row[:known], row[known:])) for row in rows]


def parts(
    rows: Iterable[SlotRow], situations: Mapping[str, Situations], limits: AnalysisLimits, pools: Pools | None = None
) -> list[Part]:
    """Groups the rows into parts of windows, for known policies; slots in no situation are dropped.

    First the parts with all requests; then those of each pool, if there are pools.
    """
    rows = list(rows)
    made = _parts(rows, situations, limits, None, "")
    if pools:
        by_pool: dict[str, list[SlotRow]] = {}
        for row in rows:
            if row.resource:
                by_pool.setdefault(pools.pool_of(row.resource), []).append(_at_server(row))
        if any(not row.resource for row in rows) or _is_contended(pools, rows, limits):
            by_pool[NODES] = [_at_node(row) for row in rows]
        for pool in sorted(by_pool):
            made += _parts(by_pool[pool], situations, limits, pools, pool)
    return made


def _at_server(row: SlotRow) -> SlotRow:
    """The row with slot time, in microseconds, in place of bytes."""
    return row._replace(sent_bytes=round(1000 * row.work), size_max=round(1000 * row.work_max))


def _at_node(row: SlotRow) -> SlotRow:
    """The row without waits for upstream servers: the node sends the responses of these servers."""
    if not row.resource:
        return row
    return row._replace(denied=0, expired=0, gave_up=0, waited=0, backlog=0, backlog_before=0)


def _is_contended(pools: Pools, rows: list[SlotRow], limits: AnalysisLimits) -> bool:
    slots = {row.slot for row in rows}
    return any(pools.cause(NODES, slot * limits.slot_s, (slot + 1) * limits.slot_s) for slot in slots)


def _parts(
    rows: list[SlotRow], situations: Mapping[str, Situations], limits: AnalysisLimits, pools: Pools | None, pool: str
) -> list[Part]:
    busy = {(row.slot, row.scope) for row in rows if row.held_back + row.waited}
    causes: dict[int, str] = {}
    for slot in {row.slot for row in rows} if pools else ():
        if cause := pools.cause(pool, slot * limits.slot_s, (slot + 1) * limits.slot_s) if pools else "":
            causes[slot] = cause
    busy |= {(row.slot, row.scope) for row in rows if row.slot in causes}
    backlogs = _backlogs(rows) if pools else {}
    when = {name: _SituationsBySlot(one.spans) for name, one in situations.items()}
    found: dict[PartKey, list[SlotRow]] = {}
    for row in rows:
        situation = when[row.policy].at(row.slot) if row.policy in when else MIXED
        if situation != MIXED:
            window_s = row.slot * limits.slot_s // limits.window_s * limits.window_s
            found.setdefault(PartKey(window_s, row.policy, row.scope, situation, pool), []).append(row)
    policies: dict[tuple[int, str], set[str]] = {}
    for key in found:
        policies.setdefault((key.window_s, key.scope), set()).add(key.policy)
    made = []
    for key in sorted(found):
        of_part = found[key]
        slots = {row.slot for row in of_part}
        seconds = when[key.policy].slots(key, limits) * limits.slot_s
        if len(policies[key.window_s, key.scope]) > 1:  # only the requests show when each policy was in force
            seconds = min(seconds, (max(slots) - min(slots) + 1) * limits.slot_s)
        moments = _moments([row for row in of_part if (row.slot, key.scope) in busy], backlogs)
        busy_s = len(moments) * limits.slot_s
        cause = mode(causes[slot] for slot in sorted(slots) if slot in causes) if slots & causes.keys() else ""
        made.append(Part(key, float(seconds), float(busy_s), _cells(key, of_part, busy), moments, cause))
    return made


class _SituationsBySlot:
    """The situations of one policy by slot."""

    def __init__(self, spans: list[SlotSpan]) -> None:
        self._spans = spans
        self._firsts = [span.first for span in spans]

    def at(self, slot: int) -> int:
        place = bisect_right(self._firsts, slot) - 1
        return self._spans[place].situation if place >= 0 and slot <= self._spans[place].last else MIXED

    def slots(self, key: PartKey, limits: AnalysisLimits) -> int:
        """Number of slots of a window in the situation; where the log begins or ends within it, as if it went on."""
        first = key.window_s // limits.slot_s
        last = first + limits.window_s // limits.slot_s - 1
        outer = self._spans[0], self._spans[-1]
        count = 0
        for span in self._spans[max(0, bisect_right(self._firsts, first) - 1) : bisect_right(self._firsts, last)]:
            if span.situation == key.situation:
                begin = first if span is outer[0] else max(first, span.first)
                end = last if span is outer[1] else min(last, span.last)
                count += end - begin + 1
        return count


def _backlogs(rows: list[SlotRow]) -> dict[tuple[int, str, str], dict[str, int]]:
    """The bins of each slot in which a request of a class waited, by slot, policy and scope, then by class."""
    masks: dict[tuple[int, str, str], dict[str, int]] = {}
    for row in rows:
        for slot, mask in ((row.slot, row.backlog), (row.slot - 1, row.backlog_before)):
            if mask:
                of_slot = masks.setdefault((slot, row.policy, row.scope), {})
                of_slot[row.name] = of_slot.get(row.name, 0) | mask
    return masks


def _moments(
    rows: list[SlotRow], backlogs: Mapping[tuple[int, str, str], Mapping[str, int]]
) -> tuple[ContendedSlot, ...]:
    by_slot: dict[int, list[ClassAmount]] = {}
    for row in rows:
        if row.slot not in by_slot:  # also for classes of which no request was decided
            before = backlogs.get((row.slot - 1, row.policy, row.scope), {})
            by_slot[row.slot] = [
                ClassAmount(name, 0, 0, 0, mask.bit_count() / BINS, _begun(mask, before.get(name, 0)))
                for name, mask in backlogs.get((row.slot, row.policy, row.scope), {}).items()
            ]
        amount = ClassAmount(row.name, row.served + row.failed, row.held_back, row.sent_bytes)
        by_slot[row.slot].append(amount)
    return tuple(ContendedSlot(slot, tuple(by_slot[slot])) for slot in sorted(by_slot))


def _begun(mask: int, before: int) -> int:
    """How many runs of set bits begin in a mask, if ``before`` is the mask of the slot before."""
    return (mask & ~(mask << 1 | before >> BINS - 1)).bit_count()


def _cells(key: PartKey, rows: list[SlotRow], busy: set[tuple[int, str]]) -> tuple[ClassSums, ...]:
    by_class: dict[str, list[SlotRow]] = {}
    for row in rows:
        by_class.setdefault(row.name, []).append(row)
    made = []
    for name in sorted(by_class):
        of_class = by_class[name]
        held = [row for row in of_class if (row.slot, key.scope) in busy]
        made.append(
            ClassSums(
                key,
                name,
                served=sum(row.served for row in of_class),
                denied=sum(row.denied for row in of_class),
                expired=sum(row.expired for row in of_class),
                failed=sum(row.failed for row in of_class),
                refused=sum(row.refused for row in of_class),
                sent_bytes=sum(row.sent_bytes for row in of_class),
                size_max=max(row.size_max for row in of_class),
                wait_ms_max=max(row.wait_ms_max for row in of_class),
                slow=tuple(map(sum, zip(*(row.slow for row in of_class), strict=True))),
                busy_served=sum(row.served for row in held),
                busy_failed=sum(row.failed for row in held),
                busy_held_back=sum(row.held_back for row in held),
                busy_bytes=sum(row.sent_bytes for row in held),
                gave_up=sum(row.gave_up for row in of_class),
            )
        )
    return tuple(made)
