"""Reading specifications from disk, as much of them as is allowed and no more."""

from __future__ import annotations

import sys
from pathlib import Path

from qosweb.errors import UsageError
from qosweb.webqos.check.check import check_built
from qosweb.webqos.model.build import Built, build
from qosweb.webqos.syntax.diagnostics import Diagnostic, error, has_errors, in_order, render
from qosweb.webqos.syntax.positions import Source, Span
from qosweb.webqos.syntax.scanner import TEXT_MAX

BYTES_MAX = 4 * TEXT_MAX


def read_source(name: str) -> tuple[Source, list[Diagnostic]]:
    """The text of a file, ``-`` for standard input. Raises UsageError if there is none."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
    except (OSError, ValueError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not a file name"
        raise UsageError(f"{name}: {reason}") from None
    shown = "<stdin>" if name == "-" else name
    if len(data) > BYTES_MAX:
        text = data[: TEXT_MAX + 1].decode("utf-8", "replace")
        return Source(shown, text + " " * max(0, TEXT_MAX + 1 - len(text))), []
    try:
        return Source(shown, data.decode("utf-8")), []
    except UnicodeDecodeError as bad:
        text = data.decode("utf-8", "replace")
        at = len(data[: bad.start].decode("utf-8", "replace"))
        return Source(shown, text), [error(Span(at, at + 1), "the file is not UTF-8", "save it as UTF-8")]


def load(name: str, *, bind_shadows: bool = False) -> Built:
    """A specification without mistakes; otherwise UsageError, after all of them were written to stderr."""
    source, unreadable = read_source(name)
    built = build(source, bind_shadows=bind_shadows)
    found = in_order([*unreadable, *built.found]) if unreadable else check_built(built)
    if has_errors(found):
        errors = [one for one in found if one.severity == "error"]
        sys.stderr.write(render(source, errors))
        raise UsageError(f"{source.name}: {count(len(errors), 'error')}; nothing was done")
    return built


def compile_text(name: str, text: str) -> tuple[Built | None, str]:
    """A specification that was sent: what it became, None if it has mistakes, and what there is to say of it."""
    source = Source(name, text)
    built = build(source)
    found = check_built(built)
    return (None if has_errors(found) else built), render(source, found)


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
