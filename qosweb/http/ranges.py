"""Byte ranges: parses Range, and formats Content-Range and multipart/byteranges.

From: RFC 9110 section 14, 15.3.7 (206) and 14.6 (multipart/byteranges).
Departs: where the RFC leaves the choice, a range set that is invalid, too long, or larger than the representation is
ignored (200 with the whole content) rather than rejected. The same applies to a suffix range of an empty
representation: 14.1.2 calls it satisfiable, but no Content-Range can express it.
"""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_RANGE_SPEC = re.compile(r"([0-9]*)-([0-9]*)")

# More digits than the size of any file has. int() would raise for thousands of digits.
_DIGITS_MAX = 19
_BEYOND_ANY_SIZE: int = 10**_DIGITS_MAX


@dataclass(frozen=True, slots=True)
class ByteSpan:
    """The bytes from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class Unsatisfiable(enum.Enum):
    """A valid range set without any existing byte: 416."""

    UNSATISFIABLE = enum.auto()


UNSATISFIABLE: Final = Unsatisfiable.UNSATISFIABLE


def parse_range(value: str, size: int, most: int) -> list[ByteSpan] | Unsatisfiable | None:
    """The spans of a representation of `size` bytes to send, in the order of the request.

    None: ignore the field (another unit, invalid, more than `most` ranges, more bytes than the representation has).
    UNSATISFIABLE: respond with 416. Otherwise at least one span. Spans that overlap or touch are joined, at the
    position of the first of them.
    """
    unit, _, range_set = value.partition("=")
    if unit.lower() != "bytes":
        return None
    specs = [spec for member in range_set.split(",") if (spec := member.strip(" \t"))]
    if not specs or len(specs) > most:
        return None

    spans: list[ByteSpan] = []
    for spec in specs:
        found = _RANGE_SPEC.fullmatch(spec)
        if found is None or spec == "-":
            return None
        first, last = found.groups()
        if not first:
            suffix_length = _number(last)
            if suffix_length and not size:
                return None
            if suffix_length:
                spans.append(ByteSpan(max(size - suffix_length, 0), size - 1))
        elif last and _is_less(last, first):
            return None
        elif (start := _number(first)) < size:
            spans.append(ByteSpan(start, min(_number(last), size - 1) if last else size - 1))

    if not spans:
        return UNSATISFIABLE
    if sum(span.length for span in spans) > size:
        return None
    return _coalesce(spans)


def content_range(span: ByteSpan, size: int) -> str:
    """The Content-Range of a part."""
    return f"bytes {span.first}-{span.last}/{size}"


def unsatisfied_range(size: int) -> str:
    """The Content-Range of a 416."""
    return f"bytes */{size}"


def multipart_byteranges(
    spans: Sequence[ByteSpan], size: int, media_type: str, boundary: str
) -> tuple[list[bytes], bytes]:
    """The framing of a multipart/byteranges body: a head for each span, and the closing delimiter.

    The sender interleaves head 0, the bytes of span 0, head 1, the bytes of span 1, ..., and the closing delimiter.
    Together they are the Content-Length. The caller chooses a boundary that does not occur in the content: at most 70
    characters, preferably letters and digits.
    """
    heads = [
        (
            f"{_delimiter(boundary, is_first=place == 0)}\r\n"
            f"Content-Type: {media_type}\r\n"
            f"Content-Range: {content_range(span, size)}\r\n"
            "\r\n"
        ).encode()
        for place, span in enumerate(spans)
    ]
    return heads, f"{_delimiter(boundary, is_first=not spans)}--\r\n".encode()


def _delimiter(boundary: str, *, is_first: bool) -> str:
    """The line break before a boundary belongs to it (RFC 2046 section 5.1.1), but a body does not start with it."""
    return f"--{boundary}" if is_first else f"\r\n--{boundary}"


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    if len(significant) > _DIGITS_MAX:
        return _BEYOND_ANY_SIZE
    return int(significant or "0")


def _is_less(one: str, other: str) -> bool:
    """Compare decimal numbers of any length."""
    one, other = one.lstrip("0"), other.lstrip("0")
    return (len(one), one) < (len(other), other)


def _coalesce(spans: list[ByteSpan]) -> list[ByteSpan]:
    if len(spans) == 1:
        return spans
    merged: list[tuple[int, ByteSpan]] = []  # with the position of the earliest span inside
    for place, span in sorted(enumerate(spans), key=lambda placed: placed[1].first):
        if merged and span.first <= merged[-1][1].last + 1:
            earlier_place, earlier = merged[-1]
            merged[-1] = min(place, earlier_place), ByteSpan(earlier.first, max(span.last, earlier.last))
        else:
            merged.append((place, span))
    return [span for _, span in sorted(merged, key=lambda placed: placed[0])]
