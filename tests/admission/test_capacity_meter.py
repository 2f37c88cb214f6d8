"""Capacity meter: a running node measures its own capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timing

PRIOR = float(1 << 30)


def test_a_node_measures_its_capacity_by_plain_requests_and_by_others(tmp_path: Path) -> None:
    with RunningNode(write_site(tmp_path / "site"), tmp_path) as node:
        assert node.metric("qosweb_capacity_bytes_per_second") == PRIOR
        with node.connect() as connection:
            for _ in range(300):
                assert connection.get("/thick.html").status == 200
                assert connection.get("/index.html", 'If-None-Match: W/"nothing"').status == 200
        wait_for(lambda: node.metric("qosweb_capacity_bytes_per_second") != PRIOR, "a measurement")
        assert node.metric("qosweb_capacity_bytes_per_second") > 1 << 20
        wait_for(lambda: node.metric("qosweb_cpu_load_ratio") > 0, "a look at the processors")
        assert node.metric("qosweb_network_sent_bytes_per_second") >= 0
        assert node.metric("qosweb_requests_in_service") == 0


def test_what_is_set_by_hand_is_not_measured(tmp_path: Path) -> None:
    with RunningNode(write_site(tmp_path / "site"), tmp_path, "--capacity", "3MB/s") as node:
        assert node.get("/index.html").status == 200
        assert node.metric("qosweb_capacity_bytes_per_second") == 3 << 20
