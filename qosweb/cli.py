"""The command line of ``qosweb``: parses arguments and runs the subcommand, which is imported only when it is used."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qosweb.analytics.command_line import add_analyze
from qosweb.errors import UsageError, did_you_mean
from qosweb.settings import ENV_PREFIX, OPTIONS, gather
from qosweb.terminal_text import escape_controls
from qosweb.tools import command_line as tools
from qosweb.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.settings import ServeSettings


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except UsageError as error:
        print(f"qosweb: error: {escape_controls(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(argv: list[str]) -> int:
    parser = _Parser(
        prog="qosweb",
        description="A distributed HTTP server with enforceable quality-of-service guarantees.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"qosweb {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands.add_parser("serve", help="serve a folder", allow_abbrev=False))
    _add_demo(commands.add_parser("demo", help="run a cluster with a sample site", allow_abbrev=False))
    tools.add_commands(commands)
    add_analyze(
        commands.add_parser("analyze", help="verify from the logs whether guarantees were kept", allow_abbrev=False)
    )
    if argv and not argv[0].startswith("-") and argv[0] not in commands.choices:
        raise UsageError(f"unknown command '{argv[0]}'{did_you_mean(argv[0], commands.choices)}")
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        what = "unknown option" if unknown[0].startswith("-") else "unexpected argument"
        chosen = commands.choices.get(arguments.command, parser)
        known = [flag for action in chosen._actions for flag in action.option_strings]  # noqa: SLF001
        raise UsageError(f"{what} '{unknown[0]}'{did_you_mean(unknown[0].partition('=')[0], known)}")
    if arguments.command is None:
        parser.print_help()
        return 0

    if arguments.command in tools.COMMANDS:
        return tools.run(arguments)
    if arguments.command == "analyze":
        from qosweb.analytics.command import analyze

        return analyze(arguments)
    if arguments.command == "serve":
        from qosweb.server.process.serve import serve

        return serve(_settings(arguments))
    from qosweb.demo.demo import demo

    return demo(nodes=arguments.nodes, port=arguments.port, keep=arguments.keep)


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Serve the files under a folder. Every option is also a key of the TOML file given with --config and an "
        "environment variable (--cache-size, cache-size, QOSWEB_CACHE_SIZE)."
    )
    parser.add_argument("--config", metavar="FILE.toml", help="settings from a TOML file")
    for spec in OPTIONS:
        shown = f" ({spec.shown_default})" if spec.has_default else ""
        help_text = (spec.help + shown).replace("%", "%%")
        if spec.is_flag:
            parser.add_argument(spec.flag, dest=spec.key, action="store_const", const="yes", help=help_text)
        elif spec.is_list:
            parser.add_argument(spec.flag, dest=spec.key, metavar=spec.metavar, action="append", help=help_text)
        else:
            parser.add_argument(spec.flag, dest=spec.key, metavar=spec.metavar, help=help_text)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a cluster on this machine until Ctrl-C. It serves the sample site, a shop with free, paid and "
        "always-available parts, under a light load, and prints commands to try."
    )
    parser.add_argument("--nodes", metavar="N", default="3", help="number of nodes (3)")
    parser.add_argument(
        "--port", metavar="P", help="first port; 0 chooses free ports (8080, or free ports if it is in use)"
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the nodes' logs in this folder, which is new or empty")


def _settings(arguments: argparse.Namespace) -> ServeSettings:
    given = vars(arguments)
    command_line = {
        spec.key: ",".join(given[spec.key]) if spec.is_list else given[spec.key]
        for spec in OPTIONS
        if given[spec.key] is not None
    }
    option, config = "--config", given["config"]
    if config is None:
        option, config = f"{ENV_PREFIX}CONFIG", os.environ.get(f"{ENV_PREFIX}CONFIG")
    file = {} if config is None else _read_toml(option, Path(config))
    return gather(command_line, os.environ, file, config or "")


def _read_toml(option: str, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # the decoder's own, bad UTF-8, a number or a nest too large
        raise UsageError(f"{option} {path}: not valid TOML: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
