"""Data directory of an earlier version: a node continues from it, with the cluster's policy and counters.

`tests/server/cluster/data/founder` is the disk of a founder that had served 60 requests of each of two classes and was
then shut down. It has a snapshot of the engine. It is never regenerated.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.clusters import make_site
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

DATA = Path(__file__).parent / "data"
RULES = ["</gold>.server_resource = 60%", "</tin>.server_resource = 30%", "</gold>.num_requests < 50/s"]


def test_a_node_continues_from_the_data_directory(tmp_path: Path) -> None:
    data = shutil.copytree(DATA / "founder", tmp_path / "data")
    site = make_site(tmp_path / "site", {"gold": 20_000, "tin": 20_000})
    key = tmp_path / "key"
    subprocess.run([sys.executable, "-m", "cluster", "key", str(key)], check=True, capture_output=True)
    options = ["--name", "a", "--key-file", str(key), "--group", "127.0.0.1:0", "--bootstrap", "--data-dir", str(data)]
    with RunningNode(site, tmp_path, *options) as node:

        def classes() -> dict[str, int]:
            status = json.loads(node.admin("/status"))
            if not status["primary"]:
                return {}
            assert status["policy"]["in_force"] == RULES
            return {name: one["cluster"]["started"] for name, one in status["classes"].items()}

        found = wait_for(classes, "the node to be in a primary view again", 60)
        assert found == {"/gold": 60, "/tin": 60, "default": 0}
        with node.connect() as connection:
            assert connection.get("/gold/page").status == 200
        wait_for(lambda: classes()["/gold"] == 61, "the request to be counted")
