"""Diagnostics: errors and warnings with a source position, rendered with the line, a caret and a hint."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal
from unicodedata import combining, east_asian_width

from qosweb.webqos.syntax.positions import Source, Span

EXCERPT_MAX = 100
SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class Note:
    """A related position in the source."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning at a position of the source."""

    severity: Literal["error", "warning"]
    span: Span
    message: str
    hint: str = ""
    notes: tuple[Note, ...] = ()


def error(span: Span, message: str, hint: str = "", notes: Sequence[Note] = ()) -> Diagnostic:
    return Diagnostic("error", span, message, hint, tuple(notes))


def warning(span: Span, message: str, hint: str = "", notes: Sequence[Note] = ()) -> Diagnostic:
    return Diagnostic("warning", span, message, hint, tuple(notes))


def has_errors(found: Iterable[Diagnostic]) -> bool:
    return any(one.severity == "error" for one in found)


def in_order(found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by position, without duplicates."""
    unique = {(one.span, one.severity, one.message): one for one in found}
    return sorted(unique.values(), key=lambda one: (one.span.start, one.severity, one.message))


def render(source: Source, found: Sequence[Diagnostic]) -> str:
    """Format diagnostics for people. Beyond ``SHOWN_MAX`` only their number is given."""
    parts = [_render_one(source, one) for one in found[:SHOWN_MAX]]
    if len(found) > SHOWN_MAX:
        parts.append(f"{source.name}: and {len(found) - SHOWN_MAX} more\n")
    return "".join(parts)


def summary(source: Source, one: Diagnostic) -> str:
    """The first line of a rendered diagnostic: position, severity, message."""
    line, column = source.place(one.span.start)
    return f"{source.name}:{line}:{column}: {one.severity}: {one.message}"


def as_json(source: Source, one: Diagnostic) -> dict[str, object]:
    line, column = source.place(one.span.start)
    end_line, end_column = source.place(one.span.end)
    return {
        "file": source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
        "severity": one.severity,
        "message": one.message,
        "hint": one.hint,
        "notes": [
            {"line": place[0], "column": place[1], "message": note.message}
            for note in one.notes
            for place in [source.place(note.span.start)]
        ],
    }


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint with the most similar of the ``known`` words, or an empty text."""
    known = list(known)
    if word.lower() != word and word.lower() in known:
        return f"write it in lower case: '{word.lower()}'"
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


def _render_one(source: Source, one: Diagnostic) -> str:
    parts = [summary(source, one), "\n", _excerpt(source, one.span)]
    if one.hint:
        parts.append(f"      = hint: {one.hint}\n")
    for note in one.notes:
        line, column = source.place(note.span.start)
        parts.append(f"{source.name}:{line}:{column}: note: {note.message}\n{_excerpt(source, note.span)}")
    return "".join(parts)


def _excerpt(source: Source, span: Span) -> str:
    line, column = source.place(span.start)
    text = "".join(c if c.isprintable() else " " if c == "\t" else "\ufffd" for c in source.line_text(line))
    first = column - 1
    length = max(1, min(span.end - span.start, len(text) - first))
    cut = max(0, min(first - EXCERPT_MAX // 2, len(text) - EXCERPT_MAX))
    shown = text[cut : cut + EXCERPT_MAX]
    dots = "..." if cut else ""
    at = first - cut
    blanks = " " * (len(dots) + _columns(shown[:at]))
    marks = "^" * max(1, _columns(shown[at : at + length]))
    return f"{line:5} | {dots}{shown}\n      | {blanks}{marks}\n"


def _columns(text: str) -> int:
    """The width of ``text`` in a terminal."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
