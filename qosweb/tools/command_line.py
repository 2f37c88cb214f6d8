"""The language's and the operator's commands on the command line: their arguments, and which function does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from typing import Any

COMMANDS = ("check", "explain", "fmt", "shares", "status", "reload", "drain")
_JSON = "for scripts: JSON on standard output"


def add_commands(commands: Any) -> None:
    _add_check(commands.add_parser("check", help="find the mistakes in specifications", allow_abbrev=False))
    _add_explain(
        commands.add_parser("explain", help="say what a specification does with a request", allow_abbrev=False)
    )
    _add_fmt(commands.add_parser("fmt", help="write specifications in their canonical form", allow_abbrev=False))
    _add_shares(commands.add_parser("shares", help="say what every class would get", allow_abbrev=False))
    _add_status(commands.add_parser("status", help="draw the cluster as a node sees it", allow_abbrev=False))
    _add_reload(commands.add_parser("reload", help="change the policy of the whole cluster", allow_abbrev=False))
    _add_drain(commands.add_parser("drain", help="end a node in order", allow_abbrev=False))


def run(arguments: argparse.Namespace) -> int:
    if arguments.command == "check":
        from qosweb.tools.check import check

        return check(arguments.files, as_json_text=arguments.json, strict=arguments.strict)
    if arguments.command == "fmt":
        from qosweb.tools.fmt import fmt

        return fmt(arguments.files, check=arguments.check, to_stdout=arguments.stdout, as_json_text=arguments.json)
    if arguments.command == "explain":
        from qosweb.tools.explain import explain

        return explain(arguments)
    if arguments.command == "status":
        from qosweb.tools.status import status

        return status(arguments)
    if arguments.command in ("reload", "drain"):
        from qosweb.tools import reload

        return (reload.reload if arguments.command == "reload" else reload.drain)(arguments)
    from qosweb.tools.shares import shares

    return shares(arguments)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = "Find the mistakes in WebQoS specifications. Exit code 0: none; 1: some; 2: no such file."
    parser.add_argument("files", metavar="FILE", nargs="+", help="a specification; - is standard input")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_fmt(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write specifications in their canonical form, in place. Comments stay."
    parser.add_argument("files", metavar="FILE", nargs="+", help="a specification; - is standard input to output")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something would change")
    parser.add_argument("--stdout", action="store_true", help="write to standard output, not to the file")
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_environment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--at", metavar="TIME", help="when, in the specification's time zone: 23:30, sat, 2026-12-24T23:30 (now)"
    )
    parser.add_argument("--load", metavar="L", help="load of the cluster, such as 80%% (0)")
    parser.add_argument("--nodes", metavar="N", help="nodes of the cluster (1)")
    parser.add_argument("--capacity", metavar="RATE", help="of one node, such as 20MB/s; bounds on rates need it")
    parser.add_argument(
        "--accessed", metavar="URL[=AGE]", action="append", default=[], help="a page accessed AGE ago, such as 5s (now)"
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.description = "Say which class a request is in, which constraints bind it, what share it has, and why."
    parser.add_argument("file", metavar="FILE", help="a specification")
    parser.add_argument("url", metavar="URL", help="http://host/path, host/path or /path")
    parser.add_argument("--client", metavar="IP", help="the client's address")
    parser.add_argument("--method", metavar="M", default="GET", help="the method (GET)")
    parser.add_argument("--header", metavar="'N: V'", action="append", default=[], help="a header field")
    parser.add_argument("--cookie", metavar="N=V", action="append", default=[], help="a cookie")
    parser.add_argument("--size", metavar="SIZE", help="the size of the page")
    parser.add_argument("--owner", metavar="NAME", help="the owner of the page")
    parser.add_argument("--last-access", metavar="AGE", help="time since the page was last asked for")
    parser.add_argument("--last-modified", metavar="AGE", help="time since the page was changed")
    parser.add_argument(
        "--linked-from", metavar="URL", action="append", default=[], help="a page of the site that links to this one"
    )
    _add_environment(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_shares(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say what every class would get: all of them asking for more than there is, or as --demand says."
    )
    parser.add_argument("file", metavar="FILE", help="a specification")
    parser.add_argument(
        "--demand", metavar="CLASS=RATE,...", action="append", default=[],
        help="what classes ask for: 30%%, 2MB/s, 50 (requests per second); those not named ask for nothing",
    )  # fmt: skip
    parser.add_argument("--request-size", metavar="SIZE", default="16KB", help="mean size of an answer (16KB)")
    parser.add_argument("--png", metavar="FILE", help="draw the picture into a file, too")
    parser.add_argument("--with-shadow", action="store_true", help="as if shadow statements were in force")
    _add_environment(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_admin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--admin", metavar="H:P", default="127.0.0.1:8081", help="the node's admin port (127.0.0.1:8081)"
    )
    parser.add_argument("--token-file", metavar="F", help="file with the token of the admin port")
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Draw the cluster as one of its nodes sees it: who is in it, how many more may fail, and what each class is "
        "promised, is due now, and gets."
    )
    parser.add_argument(
        "--watch", metavar="SECONDS", nargs="?", const="1", help="draw it again every so many seconds (1), until Ctrl-C"
    )
    _add_admin(parser)


def _add_reload(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check a specification, and put it in force in the whole cluster at one place in its order. "
        "Exit code 0: it is in force; 1: it has errors, and nothing changed; 2: no such node, or it refused."
    )
    parser.add_argument("file", metavar="SPEC", help="a specification; - is standard input")
    _add_admin(parser)


def _add_drain(parser: argparse.ArgumentParser) -> None:
    parser.description = "End a node in order, as SIGTERM does: no new connections, what is in service is finished."
    _add_admin(parser)
