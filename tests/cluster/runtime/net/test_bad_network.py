"""Members over connections that delay, stall and break: entries are still confirmed, and the traces are checked."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespaceNetwork, NamespacesUnavailable
from tests.cluster.runtime.members import Cluster
from tests.cluster.runtime.net.bad_network import GOOD, Badness, Wires
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SLOW = Badness(delay_s=0.02)
STALLING = Badness(delay_s=0.005, stall_share=0.02, stall_s=0.15)
STUCK = Badness(stall_share=0.02, stall_s=1.5)  # longer than any suspicion timeout
BREAKING = Badness(reset_share=0.01)


@pytest.mark.parametrize("badness", [SLOW, STALLING], ids=["slow", "stalling"])
def test_entries_are_confirmed_over_wires_that_are_slow(tmp_path: Path, badness: Badness) -> None:
    with Wires("abc") as wires, Cluster(tmp_path, wires=wires) as cluster:
        cluster.begin("abc")
        wires.badness = badness
        cluster.load(4).wait_until_confirmed_at("abc", 40)
        assert wires.chunks > 100
        wires.badness = GOOD
        cluster.wait_for_primary("abc").quiet().stop().judge()


def test_connections_that_are_reset_in_the_middle_of_frames_lose_nothing(tmp_path: Path) -> None:
    with Wires("abc", seed=1) as wires, Cluster(tmp_path, durable=True, wires=wires) as cluster:
        cluster.begin("abc").load(4)
        wires.badness = BREAKING
        wait_for(lambda: wires.resets >= 20, "twenty connections were reset", 60.0)
        wires.badness = GOOD
        cluster.wait_for_primary("abc").wait_until_confirmed_at("abc", 20)
        cluster.quiet().stop().judge()


def test_stalls_longer_than_the_suspicion_timeout(tmp_path: Path) -> None:
    with Wires("abcd", seed=2) as wires, Cluster(tmp_path, wires=wires) as cluster:
        cluster.begin("abcd").load(2)
        wires.badness = STUCK
        wait_for(lambda: wires.stalls >= 15, "fifteen wires got stuck", 60.0)
        wires.badness = GOOD
        cluster.wait_for_primary("abcd").wait_until_confirmed_at("abcd", 20)
        cluster.quiet().stop().judge()


def test_packets_that_are_late_lost_and_out_of_order(tmp_path: Path) -> None:
    """The same faults on packets, if the kernel supports it: tc netem."""
    try:
        with NamespaceNetwork("abc") as network:
            for name in "abc":
                netem = ["tc", "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "10ms", "10ms", "loss", "2%",
                         "reorder", "20%"]  # fmt: skip
                done = subprocess.run([*network.at(name), *netem], capture_output=True, text=True, check=False)
                if done.returncode:
                    pytest.skip(f"needs a kernel with netem (modprobe sch_netem): {done.stderr.strip()}")
            with Cluster(tmp_path, network=network) as cluster:
                cluster.begin("abc").load(4).wait_until_confirmed_at("abc", 40)
                cluster.quiet().stop().judge()
    except NamespacesUnavailable as reason:
        pytest.skip(f"needs network namespaces (root, and ./dev setup --full): {reason}")
    except FileNotFoundError:
        pytest.skip("needs tc (./dev setup --full)")
