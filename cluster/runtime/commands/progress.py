"""Progress bars on a terminal: one line for each, drawn again in place. Nothing where the output is not a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

BAR_LEN = 30
NAME_LEN_MAX = 20
_CLEAR = "\x1b[K"  # to the end of the line


class ProgressBars:
    """Bars below each other, by name."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lines = 0  # that were drawn last
        self.is_shown = output.isatty()

    def draw(self, bars: dict[str, tuple[int, int | None]]) -> None:
        """`bars`: for each name the bytes that are done, and all bytes (None if not known yet)."""
        if not self.is_shown:
            return
        text = f"\x1b[{self._lines}F" if self._lines else ""
        lines = [bar(name, *bars[name]) for name in sorted(bars)]
        lines += [""] * (self._lines - len(lines))
        self._output.write(text + "".join(f"{line}{_CLEAR}\n" for line in lines))
        self._output.flush()
        self._lines = len(lines)

    def clear(self) -> None:
        """Removes the bars: lines that follow take their place."""
        if self._lines:
            up = f"\x1b[{self._lines}F"
            self._output.write(up + f"{_CLEAR}\n" * self._lines + up)
            self._output.flush()
            self._lines = 0


def printable(text: str) -> str:
    """`text` from another process with control characters as escapes such as `\\x1b`: it cannot steer the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def bar(name: str, done: int, size: int | None) -> str:
    """One line, such as `bob  [######    ]  60 %  6.0 of 10.0 MB`."""
    name = printable(name)
    label = name if len(name) <= NAME_LEN_MAX else name[: NAME_LEN_MAX - 1] + "…"
    if size is None:
        return f"{label:<{NAME_LEN_MAX}} {done / 1e6:.1f} MB"
    done = min(done, size)
    filled = BAR_LEN * done // max(1, size) if size else BAR_LEN
    percent = 100 * done // max(1, size) if size else 100
    return (
        f"{label:<{NAME_LEN_MAX}} [{'#' * filled}{' ' * (BAR_LEN - filled)}] {percent:3d} %"
        f"  {done / 1e6:.1f} of {size / 1e6:.1f} MB"
    )
