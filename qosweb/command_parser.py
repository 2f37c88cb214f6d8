"""Parser of a command line with subcommands: errors of one line with hints, help with examples, shell completion."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from qosweb.errors import UsageError, did_you_mean
from qosweb.terminal_text import escape_controls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Arguments that are files or folders, for shell completion: `shtab` reads the attribute ``complete``.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files"}
_FOLDERS = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/"}
_FILE_METAVARS = frozenset({"A", "B", "F", "FILE", "FILE.toml", "LOG", "RESULTS", "SPEC", "TRACE"})


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions, but keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class SubcommandParser(argparse.ArgumentParser):
    """Raises UsageError instead of printing the usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, allow_abbrev=False, **options)
        self.commands: dict[str, argparse.ArgumentParser] = {}

    def add_commands(self) -> Callable[[str, str], argparse.ArgumentParser]:
        """Returns a function that adds a subcommand, with its name and its help text."""
        commands = self.add_subparsers(dest="command", metavar="COMMAND", title="commands")
        self.commands = commands.choices  # type: ignore[assignment]
        return lambda name, text: commands.add_parser(name, help=text)

    def complete_files(self) -> None:
        """Marks the arguments that are files or folders."""
        for parser in (self, *self.commands.values()):
            for action in parser._actions:  # noqa: SLF001
                if action.metavar in _FILE_METAVARS:
                    action.complete = _FILES  # type: ignore[attr-defined]
                elif action.metavar == "DIR":
                    action.complete = _FOLDERS  # type: ignore[attr-defined]

    def parse_command(self, argv: Sequence[str]) -> argparse.Namespace | None:
        """The arguments; None, after the help, if there are none. Raises UsageError."""
        if argv and not argv[0].startswith("-") and argv[0] not in self.commands:
            raise UsageError(f"unknown command '{argv[0]}'{did_you_mean(argv[0], self.commands)}")
        arguments, unknown = self.parse_known_args(argv)
        if unknown:
            what = "unknown option" if unknown[0].startswith("-") else "unexpected argument"
            chosen = self.commands.get(arguments.command, self)
            known = [flag for action in chosen._actions for flag in action.option_strings]  # noqa: SLF001
            raise UsageError(f"{what} '{unknown[0]}'{did_you_mean(unknown[0].partition('=')[0], known)}")
        if arguments.command is None:
            self.print_help()
            return None
        return arguments

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def run_command_line(prog: str, run: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """Runs a command line and turns errors into exit codes."""
    try:
        return run(sys.argv[1:] if argv is None else list(argv))
    except UsageError as error:
        print(f"{prog}: error: {escape_controls(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # such as: loadgen trace ... | head
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - so that nothing is flushed into the pipe at exit
        return 141
