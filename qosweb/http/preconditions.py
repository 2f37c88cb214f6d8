"""Conditional requests: proceed, 304 Not Modified or 412 Precondition Failed.

From: RFC 9110 section 13; the order is that of 13.2.2, for a resource that exists and has both validators.
"""

import enum
from dataclasses import dataclass

from qosweb.http.dates import parse_http_date
from qosweb.http.etags import parse_etags, same_strongly, same_weakly

# 13.2.1: methods that neither select nor modify a representation have nothing to be conditional on.
_UNCONDITIONAL_METHODS = frozenset({"CONNECT", "OPTIONS", "TRACE"})

# 8.8.2.2: a Last-Modified this much older than the Date can no longer name two states of one second.
_STRONG_AFTER_S = 1


@dataclass(frozen=True, slots=True)
class Validators:
    """What tells one state of a representation from the next."""

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
    """What becomes of a request, all its conditions but If-Range considered."""
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
    """Whether a Range field is to be honoured: no If-Range, or one that names exactly the current state.

    `now_s` is the Date of the response. A date must be a strong validator (13.1.5), which Last-Modified is
    once a second has passed since (8.8.2.2).
    """
    wanted = conditions.if_range
    if wanted is None:
        return True
    if '"' in wanted[:3]:  # 13.1.5: tells an entity tag from a date
        return parse_etags(wanted) == [wanted] and same_strongly(wanted, current.etag)
    is_strong = now_s - current.modified_s >= _STRONG_AFTER_S
    return is_strong and parse_http_date(wanted, now_s) == current.modified_s


def _lists_strongly(value: str, etag: str) -> bool:
    return value == "*" or any(same_strongly(tag, etag) for tag in parse_etags(value))


def _lists_weakly(value: str, etag: str) -> bool:
    return value == "*" or any(same_weakly(tag, etag) for tag in parse_etags(value))
