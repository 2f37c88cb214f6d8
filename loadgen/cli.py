"""Entry point of the command ``loadgen``. It imports little, so that Ctrl-C works from the start."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qosweb.interrupts import ended_by_interrupts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.command_parser import SubcommandParser


def main(argv: Sequence[str] | None = None) -> int:
    with ended_by_interrupts():
        from loadgen import command_line
    return command_line.main(argv)


def make_parser() -> SubcommandParser:
    """The parser of all commands. `shtab` makes shell completions from it."""
    from loadgen import command_line

    return command_line.make_parser()


if __name__ == "__main__":
    sys.exit(main())
