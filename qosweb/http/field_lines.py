"""Field lines of message heads: the strict grammar, and a bounded cache of lines that were validated before. Pure.

From: RFC 9112 section 5, RFC 9110 sections 5.1 and 5.5.
A name is a token, the colon follows at once, a value has no control characters but tabs. Folded lines are rejected.

Clients and servers repeat most of their field lines, even where whole heads never repeat. So a line is matched against
the grammar once and then found by its bytes. Meanings must be immutable.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

LINES_MAX = 4096
NEW_LINES_MAX = 512
LINE_LEN_MAX = 256

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD_LINE = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*"
)

Meaning = TypeVar("Meaning")


class KnownLines(dict[bytes, Meaning], Generic[Meaning]):
    """Meanings of field lines by their bytes. ``lines[line]`` reads a line that is not known with `learn`.

    Only lines that came at least twice are known: lines that never come again must not displace them. New lines are
    few, so that they stay in the processor's cache.
    """

    __slots__ = ("_new",)

    def __init__(self) -> None:
        super().__init__()
        self._new: dict[bytes, Meaning] = {}  # lines that came once

    def learn(self, line: bytes) -> Meaning:
        """The meaning of ``line``. Raises an exception if it is not a field line."""
        raise NotImplementedError

    def __missing__(self, line: bytes) -> Meaning:
        new = self._new
        meaning = new.pop(line, None)
        if meaning is not None:
            if len(self) >= LINES_MAX:
                self.clear()
            self[line] = meaning
            return meaning
        meaning = self.learn(line)
        if len(line) <= LINE_LEN_MAX:
            if len(new) >= NEW_LINES_MAX:
                new.clear()
            new[line] = meaning
        return meaning
