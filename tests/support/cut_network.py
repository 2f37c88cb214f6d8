"""Test network of namespaces whose partitions also stop multicast.

`NamespaceNetwork` cuts by neighbour tables, which multicast frames do not use. Here the bridge drops all frames between
the sides. Needs nft.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence


class CutNetwork(NamespaceNetwork):
    """Namespaces whose partitions stop every frame, except those from and to the clients."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def sent_bytes(self, name: str) -> int:
        """Bytes that have left the interface of this node."""
        statistics = self.within(name, Path("/proc/thread-self/net/dev").read_bytes).decode()
        (line,) = (line for line in statistics.splitlines() if line.strip().startswith("eth0:"))
        return int(line.split(":")[1].split()[8])

    def part(self, *sides: Sequence[str]) -> None:
        super().part(*sides)
        chains = ""
        for one in self._names:
            side = next((side for side in sides if one in side), (one,))
            others = ", ".join(self._mac(other) for other in self._names if other not in side)
            if others:
                hook = f'type filter hook egress device "to-{one}" priority 0'
                chains += f"chain to-{one} {{\n{hook}\nether saddr {{ {others} }} drop\n}}\n"
        rules = "table netdev cut {}\ndelete table netdev cut\n" + (
            f"table netdev cut {{\n{chains}}}\n" if chains else ""
        )
        done = subprocess.run(
            [*self.at(), "nft", "-f", "-"], input=rules, capture_output=True, text=True, check=False, timeout=20
        )
        if done.returncode:
            raise NamespacesUnavailable(f"nft: {done.stderr.strip()}")
