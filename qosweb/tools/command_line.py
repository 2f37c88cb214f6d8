"""Arguments of the subcommands in ``qosweb.tools``, and their dispatch. Imports a command only when it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

COMMANDS = ("check", "explain", "fmt", "shares", "status", "top", "reload", "drain", "recover", "block", "unblock",
            "blocks", "publish", "releases", "rollback")  # fmt: skip
_JSON = "write JSON to standard output, for scripts"


def add_commands(add: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add the commands of this package. `add` makes the parser of a command from its name and its help text."""
    _add_check(add("check", "check specifications for errors"))
    _add_explain(add("explain", "explain how a specification treats a request"))
    _add_fmt(add("fmt", "write specifications in their canonical form"))
    _add_shares(add("shares", "compute the share of every class"))
    _add_status(add("status", "show the state of the cluster as seen by a node"))
    _add_top(add("top", "watch all nodes, guarantees, queues and latency in the terminal"))
    _add_reload(add("reload", "change the policy of a cluster"))
    _add_drain(add("drain", "stop a node gracefully"))
    _add_recover(add("recover", "last resort: continue without a majority that is lost for good"))
    _add_block(add("block", "refuse the requests of a client or network"))
    _add_unblock(add("unblock", "end a block"))
    _add_blocks(add("blocks", "list the blocks in force"))
    _add_publish(add("publish", "publish a folder as a new release of the site"))
    _add_releases(add("releases", "list the releases of the site"))
    _add_rollback(add("rollback", "return to an earlier release of the site"))


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
    if arguments.command == "top":
        from qosweb.tools.top import top

        return top(arguments)
    if arguments.command == "status":
        from qosweb.tools.status import status

        return status(arguments)
    if arguments.command in ("block", "unblock", "blocks"):
        from qosweb.tools import blocks

        return {"block": blocks.block, "unblock": blocks.unblock, "blocks": blocks.blocks}[arguments.command](arguments)
    if arguments.command == "publish":
        from qosweb.tools.publish import publish

        return publish(arguments)
    if arguments.command in ("releases", "rollback"):
        from qosweb.tools import releases

        return (releases.releases if arguments.command == "releases" else releases.rollback)(arguments)
    if arguments.command in ("reload", "drain"):
        from qosweb.tools import reload

        return (reload.reload if arguments.command == "reload" else reload.drain)(arguments)
    if arguments.command == "recover":
        from qosweb.tools.recover import recover

        return recover(arguments)
    from qosweb.tools.shares import shares

    return shares(arguments)


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.description = "Check WebQoS specifications. Exit code 0: no errors; 1: errors; 2: a file cannot be read."
    parser.epilog = """\
examples:
  qosweb check shop.webqos
  qosweb check --strict specs/*.webqos"""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a specification; - is standard input")
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_fmt(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write specifications in their canonical form, in place. Comments stay."
    parser.epilog = """\
examples:
  qosweb fmt shop.webqos
  qosweb fmt --check specs/*.webqos"""
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="a specification; - reads standard input and writes standard output"
    )
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 if a file would change")
    parser.add_argument("--stdout", action="store_true", help="write to standard output instead of the file")
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_environment(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("state of the cluster")
    group.add_argument(
        "--at", metavar="TIME", help="time in the zone of the specification: 23:30, sat, 2026-12-24T23:30 (now)"
    )
    group.add_argument("--load", metavar="L", help="load of the cluster, such as 80%% (0)")
    group.add_argument("--nodes", metavar="N", help="nodes of the cluster (1)")
    group.add_argument(
        "--capacity", metavar="RATE", help="capacity of one node, such as 20MB/s; required for bounds on rates"
    )
    group.add_argument(
        "--accessed", metavar="URL[=AGE]", action="append", default=[], help="a page accessed AGE ago, such as 5s (now)"
    )


def _add_explain(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show the class of a request, the constraints that apply to it, its share, and the reasons."
    parser.epilog = """\
examples:
  qosweb explain shop.webqos /checkout/pay
  qosweb explain shop.webqos /free/a.html --at 23:30 --client 10.1.2.3"""
    parser.add_argument("file", metavar="FILE", help="a specification")
    parser.add_argument("url", metavar="URL", help="http://host/path, host/path or /path")
    request = parser.add_argument_group("request")
    request.add_argument("--client", metavar="IP", help="the client's address")
    request.add_argument("--method", metavar="M", default="GET", help="the method (GET)")
    request.add_argument("--header", metavar="'N: V'", action="append", default=[], help="a header field")
    request.add_argument("--cookie", metavar="N=V", action="append", default=[], help="a cookie")
    request.add_argument("--size", metavar="SIZE", help="the size of the page")
    request.add_argument("--owner", metavar="NAME", help="the owner of the page")
    request.add_argument("--last-access", metavar="AGE", help="time since the last request for the page")
    request.add_argument("--last-modified", metavar="AGE", help="time since the last change of the page")
    request.add_argument(
        "--linked-from", metavar="URL", action="append", default=[], help="a page of the site that links to this one"
    )
    _add_environment(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_shares(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Compute the share of every class, by default under contention: every class demands the whole capacity."
    )
    parser.epilog = """\
examples:
  qosweb shares shop.webqos
  qosweb shares shop.webqos --nodes 3 --capacity 20MB/s --demand /free=80%,/shop=2MB/s"""
    parser.add_argument("file", metavar="FILE", help="a specification")
    parser.add_argument(
        "--demand", metavar="CLASS=RATE,...", action="append", default=[],
        help="demand of classes: 30%%, 2MB/s, 50 (requests per second); other classes demand nothing",
    )  # fmt: skip
    parser.add_argument("--request-size", metavar="SIZE", default="16KB", help="mean size of a response (16KB)")
    parser.add_argument("--png", metavar="FILE", help="also draw a chart into this file")
    parser.add_argument("--with-shadow", action="store_true", help="treat shadow statements as binding")
    _add_environment(parser)
    parser.add_argument("--json", action="store_true", help=_JSON)


def _add_admin(parser: argparse.ArgumentParser, *, has_json: bool = True) -> None:
    node = parser.add_argument_group("node")
    node.add_argument("--admin", metavar="H:P", default="127.0.0.1:8081", help="the node's admin port (127.0.0.1:8081)")
    node.add_argument("--token-file", metavar="F", help="file with the token of the admin port")
    if has_json:
        parser.add_argument("--json", action="store_true", help=_JSON)


def _add_status(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the cluster as seen by one of its nodes: its members, how many more may fail, and for each class the "
        "guaranteed share, the share due under the current demand, and the share it gets."
    )
    parser.epilog = """\
examples:
  qosweb status
  qosweb status --admin 10.0.0.1:8081 --token-file token --watch 2"""
    parser.add_argument(
        "--watch", metavar="SECONDS", nargs="?", const="1", help="repeat at this interval (1) until Ctrl-C"
    )
    _add_admin(parser)


def _add_top(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show the cluster in the terminal, four times a second: every node with the age of its figures, every class "
        "with its share against its guarantee, its queue, and the p99 of waiting and service of the last ten seconds. "
        "Ctrl-C ends it."
    )
    parser.epilog = """\
examples:
  qosweb top
  qosweb top --admin 10.0.0.1:8081 --token-file token"""
    _add_admin(parser, has_json=False)


def _add_reload(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check a specification, and put it in force in the whole cluster at one position of its total order. "
        "Exit code 0: it is in force; 1: it has errors, nothing changed; 2: the node does not respond or refused it."
    )
    parser.epilog = """\
examples:
  qosweb reload shop.webqos
  qosweb reload shop.webqos --admin 127.0.0.1:8091"""
    parser.add_argument("file", metavar="SPEC", help="a specification; - is standard input")
    _add_admin(parser)


def _add_drain(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Stop a node gracefully, as SIGTERM does: it accepts no new connections and finishes the requests in service."
    )
    parser.epilog = """\
examples:
  qosweb drain
  qosweb drain --admin 127.0.0.1:8091"""
    _add_admin(parser)


def _add_block(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Refuse the requests of a client or network with 403, at all nodes that this node reaches, also in a minority. "
        "When the sides of a partition meet, a block stays unless it was unblocked on either side."
    )
    parser.epilog = """\
examples:
  qosweb block 203.0.113.7 --for 1h --reason 'floods the search'
  qosweb block 203.0.113.0/24 --path /search --admin 10.0.0.1:8081"""
    parser.add_argument("target", metavar="CLIENT|NETWORK", help="203.0.113.7, 203.0.113.0/24 or 2001:db8::/32")
    parser.add_argument("--path", metavar="P", default="", help="only requests for this path and paths below it")
    parser.add_argument("--for", dest="time", metavar="TIME", help="end the block after this time, such as 1h")
    parser.add_argument("--reason", metavar="TEXT", default="", help="a reason, shown to operators")
    parser.add_argument("--force", action="store_true", help="also block loopback, nodes of the cluster and proxies")
    _add_admin(parser)


def _add_unblock(parser: argparse.ArgumentParser) -> None:
    parser.description = "End the blocks of a client or network. A block with --path ends with the same --path."
    parser.epilog = """\
examples:
  qosweb unblock 203.0.113.7
  qosweb unblock 203.0.113.0/24 --path /search"""
    parser.add_argument("target", metavar="CLIENT|NETWORK", help="as it was blocked: 203.0.113.7, 203.0.113.0/24")
    parser.add_argument("--path", metavar="P", default="", help="the path that was blocked")
    _add_admin(parser)


def _add_blocks(parser: argparse.ArgumentParser) -> None:
    parser.description = "List the blocked clients and networks: who blocked them where, and how much time is left."
    parser.epilog = """\
examples:
  qosweb blocks
  qosweb blocks --json --admin 10.0.0.1:8081"""
    _add_admin(parser)


def _add_publish(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Publish a folder as a new release of the site, at nodes that run with --site. Only files that the node lacks "
        "are uploaded; an interrupted upload continues. All nodes switch at one position of the cluster's order. "
        "Exit code 0: the release is current; 1: the cluster refused it, nothing changed; 2: the node does not respond."
    )
    parser.epilog = """\
examples:
  qosweb publish public
  qosweb publish public --message 'new prices' --admin 10.0.0.1:8081 --token-file token
  qosweb publish public --dry-run"""
    parser.add_argument("folder", metavar="DIR", help="the folder with all files of the site")
    parser.add_argument("--message", metavar="TEXT", default="", help="a note about the release, for operators")
    parser.add_argument("--dry-run", action="store_true", help="only show what would change")
    parser.add_argument("--force", action="store_true", help="publish with a majority, although a node refuses")
    _add_admin(parser)


def _add_releases(parser: argparse.ArgumentParser) -> None:
    parser.description = "List the releases of the site: the current one, and those to which a rollback can return."
    parser.epilog = """\
examples:
  qosweb releases
  qosweb releases --json --admin 10.0.0.1:8081"""
    _add_admin(parser)


def _add_rollback(parser: argparse.ArgumentParser) -> None:
    parser.description = "Make an earlier release of the site current again, at all nodes."
    parser.epilog = """\
examples:
  qosweb rollback
  qosweb rollback 17"""
    parser.add_argument(
        "release", metavar="RELEASE", nargs="?", default="", help="number or digest; default: the one before"
    )
    _add_admin(parser)


def _add_recover(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Let a cluster continue that has lost the majority of its nodes for good. Run it where a data directory is "
        "left, while the node is stopped. It says what may be lost, asks for confirmation, and gives the cluster a new "
        "id. Exit code 0: done; 1: not confirmed, nothing changed; 2: not possible or not needed."
    )
    parser.epilog = """\
examples:
  qosweb recover --data-dir /var/lib/qosweb
  qosweb recover --data-dir data/n1 --data-dir data/n2 --yes"""
    parser.add_argument(
        "--data-dir", metavar="DIR", action="append", required=True,
        help="the data directory of a stopped node; repeat it if more are left",
    )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="do not ask")
