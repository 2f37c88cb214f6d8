"""Network of ``./dev bench bulk``: a limited sender, and random loss on the way to each receiver."""

from __future__ import annotations

import json
import subprocess

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable

SENDER = "s"
QUEUE_S = 0.1  # of the token bucket
ETHERNET_LEN = 14  # header


class BulkNetwork(NamespaceNetwork):
    """Namespaces `s` and `r0`, `r1`, ... on a bridge."""

    def __init__(self, receivers: int, line_mbit: int, loss: float) -> None:
        self.receivers = [f"r{at}" for at in range(receivers)]
        super().__init__([SENDER, *self.receivers])
        self._line_mbit = line_mbit
        self._loss = loss

    def __enter__(self) -> BulkNetwork:
        super().__enter__()
        try:
            self._limit()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _limit(self) -> None:
        limit = int(self._line_mbit * 1e6 / 8 * QUEUE_S)
        self.run(SENDER, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", f"{self._line_mbit}mbit",
                 "burst", "128kb", "limit", str(limit))  # fmt: skip
        for name in (SENDER, *self.receivers):  # every frame on its own, as on a cable
            self.run(name, "ip", "link", "set", "dev", "eth0", "gso_max_segs", "1")
        ports = "\n".join(
            f'chain {name} {{\ntype filter hook egress device "to-{name}" priority 0\n'
            f"numgen random mod 10000 < {round(self._loss * 100)} counter drop\n}}"
            for name in self.receivers
        )
        counters = "\n".join(
            f'chain from-{name} {{\ntype filter hook ingress device "to-{name}" priority 0\nip protocol tcp counter\n}}'
            for name in (SENDER, *self.receivers)
        )
        self.run(
            "", "nft", "-f", "-", told=f"table netdev loss {{\n{ports}\n}}\ntable netdev streams {{\n{counters}\n}}\n"
        )

    def run(self, name: str, *command: str, told: str = "") -> str:
        done = subprocess.run(
            [*self.at(name), *command], input=told, capture_output=True, text=True, check=False, timeout=20
        )
        if done.returncode:
            raise NamespacesUnavailable(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def wire_bytes(self) -> int:
        """Bytes of the frames that all have sent so far. The queue of the sender counts the headers of each segment."""
        (queue,) = json.loads(self.run(SENDER, "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
        total: int = queue["bytes"]
        for name in self.receivers:
            (link,) = json.loads(self.run(name, "ip", "-s", "-j", "link", "show", "dev", "eth0"))
            total += link["stats64"]["tx"]["bytes"]
        return total

    def tcp_bytes(self) -> int:
        """Bytes of the frames with TCP so far: in a bulk transfer that is the control traffic of the group."""
        return sum(one["bytes"] + ETHERNET_LEN * one["packets"] for one in self._counters("streams"))

    def overruns(self) -> dict[str, int]:
        """Datagrams that the socket buffers of the receivers had no room for so far."""
        found = {}
        for name in self.receivers:
            lines = self.run(name, "grep", "^Udp:", "/proc/net/snmp").splitlines()
            counters = dict(zip(lines[0].split(), lines[1].split(), strict=True))
            found[name] = int(counters["RcvbufErrors"])
        return found

    def lost(self) -> int:
        """Packets that were lost on the way to the receivers so far."""
        return sum(one["packets"] for one in self._counters("loss"))

    def _counters(self, table: str) -> list[dict[str, int]]:
        found = json.loads(self.run("", "nft", "-j", "list", "table", "netdev", table))
        rules = [item["rule"]["expr"] for item in found["nftables"] if "rule" in item]
        return [part["counter"] for rule in rules for part in rule if "counter" in part]
