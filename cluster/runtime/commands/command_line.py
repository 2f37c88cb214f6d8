"""Command-line options of ``python -m cluster`` node, send, receive, key and check."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import ssl
import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.runtime.api.options import RUNTIME_SETTINGS, Bounds, Options, Tls
from cluster.runtime.commands import node, transfer
from cluster.runtime.disk.store_errors import StoreError
from cluster.runtime.net.addresses import BadAddress, parse_address
from cluster.runtime.net.founding_check import AlreadyFounded
from cluster.runtime.net.keys import BadKey, make_key_file, read_key_file
from cluster.runtime.net.transport import CannotListen
from cluster.runtime.observe.metrics import serve_metrics
from cluster.specs.traces import BadTrace, founder_of, judge, merge

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from cluster.settings import Settings

# At 5 % loss TCP may take 0.7 s for a heartbeat, and a false suspicion can cost a whole transfer. With so much time,
# fewer heartbeats do: eight members send half a megabyte of them per second with those of the runtime.
TRANSFER_SETTINGS = msgspec.structs.replace(RUNTIME_SETTINGS, heartbeat=0.1, suspect_min=1.0)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    member = commands.add_parser(
        "node", help="run a member with a replicated counter; each line of standard input is an entry"
    )
    member.description = (
        "Run a member of a group until Ctrl-C. Its state is a counter of entries, replicated at all members. Each line "
        "of standard input is submitted as an entry; views, outcomes and status are printed as lines of JSON."
    )
    member.epilog = """\
examples:
  python -m cluster node --key-file cluster.key --name a --found --listen 127.0.0.1:7000
  python -m cluster node --key-file cluster.key --name b --join 127.0.0.1:7000 --data b-data --notes"""
    member.set_defaults(run=_node)
    _member_options(member)
    load = member.add_argument_group("load")
    load.add_argument("--load", type=int, default=0, metavar="N", help="submit generated entries, N at a time")
    load.add_argument("--size", type=int, default=150, metavar="BYTES", help="size of a generated entry (default 150)")
    load.add_argument("--confirmed", type=Path, metavar="FILE", help="write a line for each confirmed generated entry")
    member.add_argument(
        "--notes", action="store_true", help="also share a set of notes that every side of a partition can change"
    )
    member.add_argument(
        "--queries", action="store_true", help="also answer queries of the counter, shared among the members of a view"
    )
    member.add_argument("--reports", action="store_true", help="also report values that the next value makes obsolete")
    sender = commands.add_parser("send", help="send a file to all members that receive, in one order, or to none")
    sender.description = (
        "Send a file to all members that receive. If a majority of them gets it, all of them store it, else none does. "
        "Exit code 0: the file was accepted; 1: it was not, or the outcome is unknown; 2: wrong options or input."
    )
    sender.epilog = """\
examples:
  python -m cluster send site.tar --key-file cluster.key --name eve --join 127.0.0.1:7000"""
    sender.add_argument("file", type=Path, metavar="FILE", help="the file to send")
    sender.add_argument(
        "--min-rate",
        type=_rate,
        default=0.0,
        metavar="MBIT",
        help="Mbit/s; a receiver that is slower falls behind and slows nobody (default: the slowest sets the rate)",
    )
    sender.add_argument(
        "--max-rate", type=_rate, default=inf, metavar="MBIT", help="most Mbit/s (default: as fast as the network)"
    )
    _transfer_options(sender)
    sender.set_defaults(run=_send)
    receiver = commands.add_parser("receive", help="receive the files that members send, into a directory")
    receiver.description = (
        "Receive the files that other members send, until Ctrl-C. All members store them in the same order."
    )
    receiver.epilog = """\
examples:
  python -m cluster receive inbox --key-file cluster.key --name ann --found --listen 127.0.0.1:7000
  python -m cluster receive inbox2 --key-file cluster.key --name bob --join 127.0.0.1:7000 --count 1"""
    receiver.add_argument("folder", type=Path, metavar="DIR", help="directory for the received files")
    receiver.add_argument("--count", type=int, metavar="N", help="stop after N files (default: run until stopped)")
    _transfer_options(receiver)
    receiver.set_defaults(run=_receive)
    key = commands.add_parser("key", help="make a cluster key")
    key.description = "Make a random key for a new cluster. Members prove to each other that they have the key."
    key.epilog = """\
examples:
  python -m cluster key cluster.key"""
    key.add_argument("file", type=Path, metavar="FILE", help="the new file, mode 0600; every member needs a copy")
    key.set_defaults(run=_key)
    check = commands.add_parser("check", help="check recorded traces of one group's members against the specifications")
    check.description = (
        "Check the traces of all members of a group, up to the first step that a specification does not allow. "
        "Exit code 0: no violation; 1: a violation; 2: a file is not a trace."
    )
    check.epilog = """\
examples:
  python -m cluster check a.trace b.trace c.trace"""
    check.add_argument(
        "traces", type=Path, nargs="+", metavar="TRACE", help="a file that a member, or sim, wrote with --trace"
    )
    check.set_defaults(run=_check)


def _address(text: str) -> str:
    try:
        parse_address(text)
    except BadAddress as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _member_options(parser: argparse.ArgumentParser, defaults: Settings = RUNTIME_SETTINGS) -> None:
    network = parser.add_argument_group("network")
    disk = parser.add_argument_group("disk")
    observation = parser.add_argument_group("observation")
    timing = parser.add_argument_group("failure detection")
    tls = parser.add_argument_group("mutual TLS")
    parser.add_argument("--name", required=True, help="name of this process, unique in the cluster")
    parser.add_argument(
        "--key-file", type=Path, required=True, metavar="FILE", help="file with the cluster key, mode 0600"
    )
    parser.add_argument("--cluster", default="cluster", metavar="NAME", help="name of the cluster")
    network.add_argument(
        "--listen",
        type=_address,
        action="append",
        metavar="ADDRESS",
        help="address to listen on (default 127.0.0.1:0); repeatable",
    )
    network.add_argument(
        "--advertise", type=_address, action="append", metavar="ADDRESS", help="address that peers connect to"
    )
    network.add_argument(
        "--found",
        action="store_true",
        help="found the cluster: once, by one process; fails if a member answers at --join",
    )
    network.add_argument(
        "--join", type=_address, action="append", metavar="ADDRESS", help="address of a member; repeatable"
    )
    disk.add_argument(
        "--data", type=Path, metavar="DIR", help="data directory (default: keep the state in memory only)"
    )
    disk.add_argument(
        "--disk-wait",
        type=float,
        default=Bounds().disk_wait_s,
        metavar="S",
        help="seconds to wait while the disk is full before stopping (default 30)",
    )
    observation.add_argument("--order-log", type=Path, metavar="FILE", help="write a line for each delivered entry")
    observation.add_argument("--trace", type=Path, metavar="FILE", help="record all actions for 'check'; slow")
    observation.add_argument(
        "--metrics", type=_address, metavar="ADDRESS", help="serve Prometheus metrics at this address"
    )
    observation.add_argument(
        "--log-level",
        default="WARNING",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="least level of log lines on standard error",
    )
    for option, default, help_text in (
        ("heartbeat", defaults.heartbeat, "seconds between heartbeats"),
        ("suspect-min", defaults.suspect_min, "never suspect a peer that is silent for less"),
        ("suspect-max", defaults.suspect_max, "always suspect a peer that is silent for longer"),
    ):
        timing.add_argument(
            f"--{option}", type=float, default=default, metavar="S", help=f"{help_text} (default {default:g})"
        )
    for what, help_text in (("cert", "certificate"), ("key", "private key"), ("ca", "CA certificate of the peers")):
        tls.add_argument(f"--tls-{what}", type=Path, metavar="FILE", help=f"{help_text}, for mutual TLS")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 < rate < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate; write Mbit/s, such as 50")
    return rate


def _transfer_options(parser: argparse.ArgumentParser) -> None:
    _member_options(parser, TRANSFER_SETTINGS)
    parser.add_argument("--spool", type=Path, metavar="DIR", help="directory for files in transfer")
    parser.add_argument(
        "--multicast",
        type=_address,
        metavar="ADDRESS",
        help="multicast group, such as 239.1.2.3:7000 (default: a copy to each receiver)",
    )
    parser.add_argument("--interface", metavar="NAME", help="network interface of the multicast group")


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        name=arguments.name,
        key=read_key_file(arguments.key_file),
        cluster=arguments.cluster,
        listen=tuple(arguments.listen or ("127.0.0.1:0",)),
        advertise=tuple(arguments.advertise or ()),
        contacts=tuple(arguments.join or ()),
        data=arguments.data,
        order_log=arguments.order_log,
        trace=arguments.trace,
        tls=_tls(arguments),
        bounds=Bounds(disk_wait_s=arguments.disk_wait),
        settings=msgspec.structs.replace(
            RUNTIME_SETTINGS,
            heartbeat=arguments.heartbeat,
            suspect_min=arguments.suspect_min,
            suspect_max=arguments.suspect_max,
        ),
    )


def _tls(arguments: argparse.Namespace) -> Tls | None:
    files = (arguments.tls_cert, arguments.tls_key, arguments.tls_ca)
    if not any(files):
        return None
    if not all(files):
        raise ValueError("mutual TLS needs all of --tls-cert, --tls-key and --tls-ca")
    return make_tls(*files)


def make_tls(cert: Path, key: Path, authority: Path) -> Tls:
    """Mutual TLS: both sides need a certificate of this CA. Host names are not checked: the cluster key decides."""
    contexts = []
    for purpose in (ssl.Purpose.CLIENT_AUTH, ssl.Purpose.SERVER_AUTH):
        context = ssl.create_default_context(purpose, cafile=str(authority))
        context.load_cert_chain(cert, key)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        contexts.append(context)
    return Tls(*contexts)


def _run(
    arguments: argparse.Namespace, main: Callable[[Options, argparse.Namespace], Coroutine[None, None, int]]
) -> int:
    logging.basicConfig(
        level=arguments.log_level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        options = _options(arguments)
        if arguments.metrics:
            serve_metrics(arguments.metrics)
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(main(options, arguments))
    except (BadKey, StoreError, CannotListen, AlreadyFounded, ValueError, ssl.SSLError, OSError) as error:
        print(f"python -m cluster {arguments.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _node(arguments: argparse.Namespace) -> int:
    return _run(arguments, node.run)


def _send(arguments: argparse.Namespace) -> int:
    return _run(arguments, transfer.send)


def _receive(arguments: argparse.Namespace) -> int:
    return _run(arguments, transfer.receive)


def _key(arguments: argparse.Namespace) -> int:
    try:
        make_key_file(arguments.file)
    except (BadKey, OSError) as error:
        print(f"python -m cluster key: {error}", file=sys.stderr)
        return 2
    return 0


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _check(arguments: argparse.Namespace) -> int:
    try:
        founder = founder_of({str(path): _lines(path) for path in arguments.traces})
        verdict = judge(founder, merge({str(path): _lines(path) for path in arguments.traces}))
    except (BadTrace, OSError) as error:
        print(f"python -m cluster check: {error}", file=sys.stderr)
        return 2
    if verdict.violation is not None:
        print(verdict.violation)
        return 1
    print(f"{verdict.steps} actions of {len(arguments.traces)} traces: all specifications hold")
    return 0
