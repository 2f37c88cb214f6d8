"""Source text and positions: spans, lines and columns."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Span:
    """Characters from ``start`` up to, not including, ``end``."""

    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        return Span(self.start, other.end)


@dataclass(frozen=True)
class Source:
    """A text and its name in diagnostics."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        at = self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line_of(self, offset: int) -> int:
        """The number of the line, from 1."""
        return bisect_right(self._line_starts, offset)

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = self.line_of(offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line_text(self, line: int) -> str:
        start = self._line_starts[line - 1]
        end = self._line_starts[line] - 1 if line < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def cut(self, span: Span) -> str:
        return self.text[span.start : span.end]
