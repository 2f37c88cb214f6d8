"""Hostile load at full size: each attack alone, on files and as a proxy, plain and with TLS; an honest client is timed.

Each attack keeps its connections from one address. An honest client at another address sends requests before, during
and after it. The ratio is p99 during the attack to p99 without (the larger of before and after, and at least
FLOOR_MS). `senders_and_readers` is both at once from one address. Exit code 1: a ratio is above RATIO_MAX, p99 during a
flood is above its bound, or the honest client got an error.

A flood is load, too: a server that takes connections in turn lets a request wait while it answers one request of each
attacking connection. So beside a flood the honest client may wait for FLOOD_ROUNDS such rounds, by the processor time
that the node really took for a response, in addition to what a ratio of RATIO_MAX allows.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.server.test_hostile_load import site
from tests.support.application import Application, upstream_options
from tests.support.honest import quantile, waits_s
from tests.support.hostile import ATTACKS, Attackers
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.tls import client_context, write_certificate

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGETS = ("files", "proxy", "files-tls", "proxy-tls")
BOTH = ("slow_large_body", "slow_reader")
RATIO_MAX = 2.0
FLOODS = ("connection_flood", "distinct_pages")
FLOOD_ROUNDS = 2
FLOOR_MS = 5.0  # of the normal p99: below it the scheduler of the machine is measured


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign hostile", description=__doc__)
    parser.add_argument("--size", type=int, default=260, help="connections of each attack (default: 260)")
    parser.add_argument("--requests", type=int, default=1000, help="of the honest client, each time (default: 1000)")
    parser.add_argument("--target", choices=TARGETS, action="append", help="default: all")
    parser.add_argument("--attack", choices=[*ATTACKS, "senders_and_readers"], action="append", help="default: all")
    options = parser.parse_args(arguments)
    attacks = options.attack or [*ATTACKS, "senders_and_readers"]
    print(f"{'target':<10} {'attack':<22} {'normal p50/p99':>15} {'attacked':>17}  ratio  connections  memory    bound")
    failed = 0
    for target in options.target or TARGETS:
        with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
            failed += try_target(Path(folder), target, attacks, options.size, options.requests)
    print("all within the limits" if not failed else f"{failed} NOT WITHIN THE LIMITS")
    return 1 if failed else 0


def try_target(folder: Path, target: str, attacks: Sequence[str], size: int, requests: int) -> int:
    """Returns how many attacks disturbed the honest client."""
    certificate, key = write_certificate(folder / "tls")
    has_tls, is_proxy = target.endswith("tls"), target.startswith("proxy")
    tls = client_context(certificate) if has_tls else None
    options = ["--tls-cert", str(certificate), "--tls-key", str(key)] if has_tls else []
    failed = 0
    with ExitStack() as stack:
        if is_proxy:
            options += upstream_options(stack.enter_context(Application(free_port())))
        node = stack.enter_context(RunningNode(None if is_proxy else site(folder), folder, *options))
        process = psutil.Process(node.process.pid)
        for attack in attacks:
            kinds = BOTH if attack == "senders_and_readers" else (attack,)
            before = waits_s(node.port, requests, tls=tls)
            responses, busy_s = responses_of(node), busy_of(process)
            one_address = attack == "senders_and_readers"
            with Attackers(
                node.port, size, kinds, ca=certificate if has_tls else None, one_address=one_address
            ) as attackers:
                attacked = waits_s(node.port, requests, tls=tls)
                memory = process.memory_info().rss >> 20
                each_ms = 1000 * (busy_of(process) - busy_s) / max(1.0, responses_of(node) - responses)
            after = waits_s(node.port, requests, tls=tls)
            normal = max(before, after, key=lambda waits: quantile(waits, 0.99))
            p99_ms = 1000 * quantile(attacked, 0.99)
            normal_ms = max(FLOOR_MS, 1000 * quantile(normal, 0.99))
            ratio = p99_ms / normal_ms
            most_ms = RATIO_MAX * normal_ms + (FLOOD_ROUNDS * size * each_ms if attack in FLOODS else 0.0)
            is_bad = p99_ms > most_ms
            failed += is_bad
            print(
                f"{target:<10} {attack:<22} {shown(normal):>15} {shown(attacked):>17}  {ratio:5.2f}"
                f"{' !' if is_bad else '  '}{sum(attackers.opened.values()):>10}  {memory:>4} MB  {most_ms:5.1f} ms",
                flush=True,
            )
    return failed


def responses_of(node: RunningNode) -> float:
    """All responses that it has sent."""
    lines = node.admin("/metrics").splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("qosweb_responses_total{"))


def busy_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def shown(waits: list[float]) -> str:
    return f"{1000 * quantile(waits, 0.5):.1f}/{1000 * quantile(waits, 0.99):.1f} ms"
