"""Error responses as JSON: whether a client prefers them (Accept), and their body. Pure.

From: RFC 9110 section 12.5.1 (Accept), 12.4.2 (weights); RFC 9457 (problem details).
Departs: parameters of media ranges other than q are ignored.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON_TYPES = ("application/json", "application/problem+json")

# type/subtype, then parameters; possessive quantifiers prevent backtracking.
_RANGE = re.compile(r"[ \t]*+([!#$%&'*+.^_`|~0-9A-Za-z-]++)/([!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*+((?:;[^,]*+)?+)")
_WEIGHT = re.compile(r";[ \t]*+[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)[ \t]*+(?:;|$)")


def preferred_json_type(accept: Sequence[str], default: str) -> str | None:
    """The JSON type that a client prefers to the media type ``default``; None if it prefers ``default``.

    ``accept`` are the lines of its Accept field. The highest weight wins. Among equal weights a type that the field
    names wins against one that only a wildcard covers, and ``default`` against a JSON type.
    """
    if not any("json" in line.lower() for line in accept):
        return None
    ranges = _parse_ranges(accept)
    best, best_rank = default, _rank(default, ranges)
    for media_type in JSON_TYPES:
        rank = _rank(media_type, ranges)
        if rank > best_rank:
            best, best_rank = media_type, rank
    return None if best == default else best


def problem_body(status: int, title: str, detail: str) -> bytes:
    return json.dumps({"status": status, "title": title, "detail": detail}).encode() + b"\n"


def _parse_ranges(accept: Sequence[str]) -> dict[str, float]:
    """The weight of each media range, in lower case. Malformed members are ignored; the first of equal ones counts."""
    weights: dict[str, float] = {}
    for member in ",".join(accept).split(","):
        found = _RANGE.fullmatch(member)
        if found is not None:
            weight = _WEIGHT.search(found[3])
            weights.setdefault(f"{found[1]}/{found[2]}".lower(), 1.0 if weight is None else float(weight[1]))
    return weights


def _rank(media_type: str, ranges: dict[str, float]) -> tuple[float, int]:
    """Weight and specificity of the most specific range that covers the type."""
    of_type = media_type.partition("/")[0] + "/*"
    for specificity, name in ((2, media_type), (1, of_type), (0, "*/*")):
        if name in ranges:
            return ranges[name], specificity if ranges[name] else 0
    return 0.0, 0
