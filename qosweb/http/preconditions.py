"""Evaluates conditional requests: proceed, 304 Not Modified or 412 Precondition Failed.

From: RFC 9110 section 13; in the order of 13.2.2, for a resource that exists and has both validators.
"""

import enum
from dataclasses import dataclass

from qosweb.http.dates import parse_http_date
from qosweb.http.etags import parse_etags, same_strongly, same_weakly

# 13.2.1: conditions do not apply to methods that neither select nor modify a representation.
_UNCONDITIONAL_METHODS = frozenset({"CONNECT", "OPTIONS", "TRACE"})

# 8.8.2.2: a Last-Modified this much older than the Date identifies a single state.
_STRONG_AFTER_S = 1


@dataclass(frozen=True, slots=True)
class Validators:
    """The validators of the current representation."""

    etag: str  # as in the field: with quotes, perhaps with W/
    modified_s: int


@dataclass(frozen=True, slots=True)
class RequestConditions:
    """The conditional fields of a request; the lines of a repeated field are joined with ', '."""

    if_match: str | None = None
    if_none_match: str | None = None
    if_modified_since: str | None = None
    if_unmodified_since: str | None = None
    if_range: str | None = None


class PreconditionResult(enum.Enum):
    PROCEED = enum.auto()
    NOT_MODIFIED = enum.auto()  # 304
    FAILED = enum.auto()  # 412


def evaluate(conditions: RequestConditions, method: str, current: Validators, now_s: int) -> PreconditionResult:
    """Evaluate all conditions of a request except If-Range."""
    if method in _UNCONDITIONAL_METHODS:
        return PreconditionResult.PROCEED
    reads = method in ("GET", "HEAD")

    if conditions.if_match is not None:
        if not _lists_strongly(conditions.if_match, current.etag):
            return PreconditionResult.FAILED
    elif conditions.if_unmodified_since is not None:
        limit_s = parse_http_date(conditions.if_unmodified_since, now_s)
        if limit_s is not None and current.modified_s > limit_s:
            return PreconditionResult.FAILED

    if conditions.if_none_match is not None:
        if _lists_weakly(conditions.if_none_match, current.etag):
            return PreconditionResult.NOT_MODIFIED if reads else PreconditionResult.FAILED
    elif conditions.if_modified_since is not None and reads:
        limit_s = parse_http_date(conditions.if_modified_since, now_s)
        if limit_s is not None and current.modified_s <= limit_s:
            return PreconditionResult.NOT_MODIFIED

    return PreconditionResult.PROCEED


def range_applies(conditions: RequestConditions, current: Validators, now_s: int) -> bool:
    """Whether a Range field applies: there is no If-Range, or it matches the current state exactly.

    `now_s` is the Date of the response. A date must be a strong validator (13.1.5). Last-Modified is strong once a
    second has passed (8.8.2.2).
    """
    if_range = conditions.if_range
    if if_range is None:
        return True
    if '"' in if_range[:3]:  # 13.1.5: distinguishes an entity tag from a date
        return parse_etags(if_range) == [if_range] and same_strongly(if_range, current.etag)
    is_strong = now_s - current.modified_s >= _STRONG_AFTER_S
    return is_strong and parse_http_date(if_range, now_s) == current.modified_s


def _lists_strongly(value: str, etag: str) -> bool:
    return value == "*" or any(same_strongly(tag, etag) for tag in parse_etags(value))


def _lists_weakly(value: str, etag: str) -> bool:
    return value == "*" or any(same_weakly(tag, etag) for tag in parse_etags(value))
