"""Loads specifications from files or standard input, with a limit on their size."""

from __future__ import annotations

import sys
from pathlib import Path

from qosweb.errors import UsageError
from qosweb.units import pluralize
from qosweb.webqos import Specification, compile_policy
from qosweb.webqos.syntax.diagnostics import Diagnostic, error, render
from qosweb.webqos.syntax.positions import Source, Span
from qosweb.webqos.syntax.scanner import TEXT_MAX
from qosweb.webqos.syntax.tree import Tree

BYTES_MAX = 4 * TEXT_MAX


def read_source(name: str) -> tuple[Source, list[Diagnostic]]:
    """Read a file, or standard input for ``-``. Raises UsageError if it cannot be read.

    A file that is not UTF-8 comes with a diagnostic that says so.
    """
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
    if len(data) > BYTES_MAX:  # the scanner rejects a text of this length
        text = data[: TEXT_MAX + 1].decode("utf-8", "replace")
        return Source(shown, text + " " * max(0, TEXT_MAX + 1 - len(text))), []
    try:
        return Source(shown, data.decode("utf-8")), []
    except UnicodeDecodeError as bad:
        text = data.decode("utf-8", "replace")
        at = len(data[: bad.start].decode("utf-8", "replace"))
        return Source(shown, text), [error(Span(at, at + 1), "the file is not UTF-8", "save it as UTF-8")]


def compile_file(name: str, *, bind_shadows: bool = False) -> Specification:
    """Compile a file; mistakes are in ``diagnostics``. Raises UsageError if the file cannot be read."""
    source, unreadable = read_source(name)
    if unreadable:
        return Specification(source, Tree(()), None, unreadable)
    return compile_policy(source.text, source.name, bind_shadows=bind_shadows)


def load(name: str, *, bind_shadows: bool = False) -> Specification:
    """Compile a file that must not have errors. Otherwise writes them to standard error and raises UsageError."""
    policy = compile_file(name, bind_shadows=bind_shadows)
    if policy.has_errors:
        errors = [diagnostic for diagnostic in policy.diagnostics if diagnostic.severity == "error"]
        sys.stderr.write(render(policy.source, errors))
        raise UsageError(f"{policy.source.name}: {pluralize(len(errors), 'error')}; nothing was done")
    return policy
