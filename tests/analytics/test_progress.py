"""The line that changes in a terminal, and what else is written there."""

from __future__ import annotations

import io

from qosweb.analytics.progress import WIDTH, Progress
from tests.support.waiting import wait_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_line_is_gone_while_something_else_is_written() -> None:
    terminal = Terminal()
    with Progress(quiet=False, to=terminal) as progress:
        progress.say("adding up")
        wait_for(lambda: "adding up" in terminal.getvalue(), "the line", 30)
        with progress.silence():
            terminal.write("held\n")
        before = len(terminal.getvalue())
        wait_for(lambda: len(terminal.getvalue()) > before, "the line again", 30)
    first, rest = terminal.getvalue().split("held\n")
    assert first.endswith("\r" + " " * WIDTH + "\r")
    assert rest.startswith("\r")
