"""Rows of the class tables of ``qosweb status`` and the dashboard: each guarantee as written, with its classes.

A rule that covers one class is shown in the row of the class. A rule that was split into several classes has a row of
its own, with the classes indented below it; it bounds their sum. A bound is shown with the condition of its rule.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_RULE = re.compile(
    r"(?:(?P<condition>.*) => )?(?P<pages>.+)\.(?P<attribute>server_resource|num_requests|num_bytes|available) "
    r"(?P<bound>[<>=] .*?)(?: as \S+)?$"
)
NO_RULE = "-"


@dataclass(frozen=True)
class GuaranteeRow:
    """One row. ``classes`` are the classes whose shares it shows: one, or those that a rule was split into."""

    label: str
    guaranteed: str
    classes: tuple[str, ...]
    is_rule: bool = False


def rows_of(names: Sequence[str], rules: Iterable[Mapping[str, object]]) -> list[GuaranteeRow]:
    """The rows for these classes, in their order. A class is below the smallest of the rules that share it."""
    own: dict[str, list[str]] = {name: [] for name in names}
    shared: list[tuple[str, str, tuple[str, ...]]] = []
    for rule in rules:
        match = _RULE.match(str(rule["text"]))
        listed = rule["classes"]
        if match is None or not isinstance(listed, list):
            continue
        classes = tuple(name for name in listed if name in own)
        if len(classes) == 1:
            own[classes[0]].append(_bound(match))
        elif classes:
            shared.append((match["pages"], _bound(match), classes))
    shared = _joined(shared)
    below = {name: min((one for one in shared if name in one[2]), key=lambda one: len(one[2]), default=None)
             for name in names}  # fmt: skip
    rows: list[GuaranteeRow] = []
    shown: set[tuple[str, str, tuple[str, ...]]] = set()
    for name in names:
        group = below[name]
        if group is None:
            rows.append(GuaranteeRow(name, ", ".join(own[name]) or NO_RULE, (name,)))
        elif group not in shown:
            shown.add(group)
            rows.append(GuaranteeRow(group[0], group[1], group[2], is_rule=True))
            rows += [GuaranteeRow(f"  {one}", ", ".join(own[one]), (one,)) for one in group[2] if below[one] == group]
    return rows + [GuaranteeRow(one[0], one[1], one[2], is_rule=True) for one in shared if one not in shown]


def _joined(shared: list[tuple[str, str, tuple[str, ...]]]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Rules for the same pages and classes as one."""
    bounds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for pages, bound, classes in shared:
        bounds.setdefault((pages, classes), []).append(bound)
    return [(pages, ", ".join(found), classes) for (pages, classes), found in bounds.items()]


def _bound(match: re.Match[str]) -> str:
    """The bound of a rule with its condition, such as ``> 40% if time in 20:00-22:00``."""
    bound = match["bound"]
    if match["attribute"] == "available":
        bound = bound.removeprefix("= ")
    elif match["attribute"] != "server_resource":
        bound = f"{match['attribute']} {bound}"
    return bound if match["condition"] is None else f"{bound} if {match['condition']}"
