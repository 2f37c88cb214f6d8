"""Progress bars: names from other processes cannot steer the terminal."""

from __future__ import annotations

import io

import pytest

from cluster.runtime.commands.progress import ProgressBars, bar, printable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\nb", "\r", "\x9b31m", "\u202egnp", "\ud800"])
@pytest.mark.parametrize("size", [None, 10])
def test_control_characters_of_a_name_are_escaped(name: str, size: int | None) -> None:
    assert bar(name, 5, size).isprintable()
    terminal = Terminal()
    ProgressBars(terminal).draw({name: (5, size)})
    assert terminal.getvalue() == bar(name, 5, size) + "\x1b[K\n"


def test_other_names_are_shown_as_they_are() -> None:
    assert printable("Größe 1.bin") == "Größe 1.bin"
    assert bar("bob", 6, 10).startswith("bob  ")
    assert printable("\x1b[2J") == r"\x1b[2J"
