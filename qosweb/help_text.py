"""Help texts of ``qosweb``: their format, and which arguments a shell completes with file names."""

from __future__ import annotations

import argparse

_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files"}
_FOLDERS = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/"}
_FILE_METAVARS = frozenset({"F", "FILE", "FILE.toml", "LOG", "SPEC"})


class HelpFormatter(argparse.HelpFormatter):
    """Wraps descriptions, but keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


def complete_files(parser: argparse.ArgumentParser) -> None:
    """Mark the arguments that are files or folders. `shtab` reads the attribute ``complete``."""
    for action in parser._actions:  # noqa: SLF001
        if action.metavar in _FILE_METAVARS:
            action.complete = _FILES  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = _FOLDERS  # type: ignore[attr-defined]
