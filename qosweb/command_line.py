"""The command line of ``qosweb``: parses arguments and runs the subcommand, which is imported only when it is used."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.analytics.command_line import add_analyze
from qosweb.command_parser import SubcommandParser, run_command_line
from qosweb.errors import UsageError
from qosweb.settings import ENV_PREFIX, GROUPS, OPTIONS, gather
from qosweb.tools import command_line as tools
from qosweb.version import VERSION

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from qosweb.settings import ServeSettings


def main(argv: Sequence[str] | None = None) -> int:
    return run_command_line("qosweb", _run, argv)


def make_parser() -> SubcommandParser:
    """The parser of all commands."""
    parser = SubcommandParser(
        prog="qosweb",
        description="A distributed HTTP server with enforceable quality-of-service guarantees.",
        epilog="""\
examples:
  qosweb demo                                      run a cluster with a sample site
  qosweb check shop.webqos                         check a specification
  qosweb serve --root site --spec shop.webqos      serve a folder
  qosweb status --watch                            watch the cluster
  qosweb COMMAND --help                            options and examples of a command""",
    )
    parser.add_argument("--version", action="version", version=f"qosweb {VERSION}")
    add = parser.add_commands()
    _add_serve(add("serve", "serve a folder, or forward to another server"))
    _add_demo(add("demo", "run a cluster with a sample site"))
    tools.add_commands(add)
    add_analyze(add("analyze", "verify from the logs whether guarantees were kept"))
    parser.complete_files()
    return parser


def _run(argv: list[str]) -> int:
    arguments = make_parser().parse_command(argv)
    if arguments is None:
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
        "Serve a folder, an application (--upstream), or releases (--site). Every option is also a key of the TOML "
        "file given with --config and an environment variable (--cache-size, cache-size, QOSWEB_CACHE_SIZE)."
    )
    parser.epilog = """\
examples:
  qosweb serve --root site
  qosweb serve --root site --spec shop.webqos --listen 0.0.0.0:8080 --capacity 2MB/s
  qosweb serve --upstream http://127.0.0.1:9000 --spec shop.webqos
  qosweb serve --config /etc/qosweb.toml
  qosweb serve --root site --key-file cluster.key --data-dir data --group 10.0.0.2:8082 --join 10.0.0.1:8082"""
    parser.add_argument("--config", metavar="FILE.toml", help="settings from a TOML file")
    group_of = {key: parser.add_argument_group(title) for title, keys in GROUPS for key in keys[:1]}
    group_of |= {key: group_of[keys[0]] for _, keys in GROUPS for key in keys}
    for spec in OPTIONS:
        group = group_of.get(spec.key, parser)
        shown = f" ({spec.shown_default})" if spec.has_default else ""
        help_text = (spec.help + shown).replace("%", "%%")
        if spec.is_flag:
            group.add_argument(spec.flag, dest=spec.key, action="store_const", const="yes", help=help_text)
        elif spec.is_list:
            group.add_argument(spec.flag, dest=spec.key, metavar=spec.metavar, action="append", help=help_text)
        else:
            group.add_argument(spec.flag, dest=spec.key, metavar=spec.metavar, help=help_text)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Run a cluster on this machine until Ctrl-C. It serves the sample site, a shop with free, paid and "
        "always-available parts, under a light load, and prints commands to try."
    )
    parser.epilog = """\
examples:
  qosweb demo
  qosweb demo --nodes 5 --port 0
  qosweb demo --keep logs"""
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
