"""`python -m cluster send` and `receive` in network namespaces: multicast, IPv6, and a partition in the middle."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.namespaces import NamespacesUnavailable
from tests.cluster.runtime.commands.transfers import LARGE, SLOWLY, Transfers, content
from tests.support.cut_network import CutNetwork
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = "abcx"


@pytest.fixture
def network() -> Iterator[CutNetwork]:
    try:
        with CutNetwork(list(NAMES)) as made:
            yield made
    except NamespacesUnavailable as error:
        pytest.skip(str(error))


class SixNetwork:
    """The same namespaces, with IPv6 addresses."""

    def __init__(self, network: CutNetwork) -> None:
        self.at = network.at
        for name in NAMES:
            command = ["ip", "address", "add", f"{self.address(name)[1:-1]}/64", "dev", "eth0", "nodad"]
            subprocess.run([*network.at(name), *command], check=True, timeout=20)

    def address(self, name: str) -> str:
        return f"[fd78::{NAMES.index(name) + 1}]"


@pytest.mark.parametrize("group", ["239.255.71.9:7009", "[ff02::7109]:7009"])
def test_one_copy_goes_to_a_multicast_group(tmp_path: Path, network: CutNetwork, group: str) -> None:
    place = SixNetwork(network) if group.startswith("[") else network
    with Transfers(tmp_path, place, "--multicast", group, "--interface", "eth0") as transfers:  # type: ignore[arg-type]
        for name in "abc":
            transfers.receiver(name)
        before = network.sent_bytes("x")
        transfers.sender("x", content(LARGE))
        assert transfers.end("x") == 0, transfers.log("x")
        for name in "abc":
            wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
        assert network.sent_bytes("x") - before < 1.5 * LARGE


@pytest.mark.parametrize("options", [(), ("--multicast", "239.255.71.9:7009", "--interface", "eth0")])
def test_a_partition_in_the_middle_of_a_transfer(tmp_path: Path, network: CutNetwork, options: tuple[str, ...]) -> None:
    """The majority goes on. The member that was cut off continues, or says what it missed."""
    with Transfers(tmp_path, network, *options) as transfers:
        for name in "abc":
            transfers.receiver(name)
        transfers.sender("x", content(LARGE), *SLOWLY)
        transfers.wait_for_the_middle("c")
        network.part("abx", "c")
        assert transfers.end("x") == 0, transfers.log("x")
        for name in "ab":
            wait_for(lambda name=name: transfers.has(name, "x.bin", content(LARGE)), "the transfer")  # type: ignore[misc]
        assert transfers.order("a") == transfers.order("b")
        assert transfers.order("c") == []
        network.heal()
        wait_for(lambda: "were missed" in transfers.log("c") or len(transfers.order("c")) == 1, "c to continue")
        transfers.processes.pop("x")
        transfers.sender("x", b"afterwards")
        assert transfers.end("x") == 0, transfers.log("x")
        for name in "abc":
            wait_for(lambda name=name: transfers.has(name, "x.bin", b"afterwards"), "the transfer")  # type: ignore[misc]
        assert transfers.order("a") == transfers.order("b")
        assert transfers.order("a")[-len(transfers.order("c")) :] == transfers.order("c")
