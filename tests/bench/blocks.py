"""``./dev bench blocks``: the block list with 100,000 entries: lookup by longest prefix, operations, a merge.

Networks of all prefix lengths from /8 to /32 and /32 to /64, at random; half of the looked up clients are in one of
them. CPU time, the best of several rounds. The baseline is a dictionary with the address as its key.
"""

from __future__ import annotations

import argparse
import ipaddress
import random
import time
from math import inf
from typing import TYPE_CHECKING

from cluster import ProcessId
from qosweb.blocklist.block_list import BlockList
from qosweb.blocklist.operations import BlockOperation, encode_operation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENTRIES = 100_000
LOOKUPS = 20_000
ROUNDS = 7
GOAL_US = 2.0
ME = ProcessId("n1")


def network(chance: random.Random) -> str:
    if chance.random() < 0.8:
        length = chance.randint(8, 32)
        return str(ipaddress.IPv4Network((chance.getrandbits(length) << (32 - length), length)))
    length = chance.randint(32, 64)
    return str(ipaddress.IPv6Network((chance.getrandbits(length) << (128 - length), length)))


def clients(chance: random.Random, networks: Sequence[str]) -> list[str]:
    inside = [str(ipaddress.ip_network(one).network_address + 1) for one in chance.sample(networks, LOOKUPS // 2)
              if not one.endswith("/32")]  # fmt: skip
    return [*inside, *(str(ipaddress.IPv4Address(chance.getrandbits(32))) for _ in range(LOOKUPS - len(inside)))]


def us_each(act: Callable[[str], object], arguments: Sequence[str]) -> float:
    best = inf
    for _ in range(ROUNDS):
        start = time.process_time()
        for one in arguments:
            act(one)
        best = min(best, time.process_time() - start)
    return best / len(arguments) * 1e6


def ms_of(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1e3


def main(arguments: list[str]) -> int:
    argparse.ArgumentParser(prog="./dev bench blocks", description=__doc__).parse_args(arguments)
    chance = random.Random(1)
    networks = [network(chance) for _ in range(ENTRIES)]
    bodies = [
        encode_operation(BlockOperation(f"{number:016x}", one, "", 3600.0, "attack", "ops", "n1", 0.0))
        for number, one in enumerate(networks)
    ]
    blocks = BlockList(time.monotonic)
    applied_ms = ms_of(lambda: [blocks.apply(ME, body, 0.0) for body in bodies])
    looked_up = clients(chance, networks)
    plain = dict.fromkeys(looked_up)
    found_us = us_each(blocks.affects, looked_up)
    print(f"{len(blocks):,} entries; CPU time")
    print(f"  a dictionary with addresses as keys   {us_each(plain.get, looked_up):7.3f} us")
    print(f"  longest prefix                        {found_us:7.3f} us   goal: at most {GOAL_US:g} us")
    print(f"  the block of a request, with its path {us_each(lambda one: blocks.find(one, '/a'), looked_up):7.3f} us")
    print(f"  an operation                          {applied_ms / ENTRIES * 1e3:7.3f} us")
    states = [blocks.snapshot(), blocks.snapshot()]
    print(f"  a state of {len(states[0]) / 1e6:.1f} MB                     {ms_of(blocks.snapshot):7.1f} ms")
    print(f"  a merge of two such states            {ms_of(lambda: blocks.merge(states)):7.1f} ms")
    turns: list[Callable[[], None]] = []
    newcomer = BlockList(time.monotonic, turns.append)
    total_ms = longest_ms = ms_of(lambda: newcomer.merge([states[0], newcomer.snapshot()]))
    while turns:
        piece_ms = ms_of(turns.pop())
        total_ms, longest_ms = total_ms + piece_ms, max(longest_ms, piece_ms)
    print(f"  a newcomer's first merge              {total_ms:7.1f} ms, at most {longest_ms:.1f} ms at a time")
    return 0 if found_us <= GOAL_US else 1
