"""An invalid policy changes nothing on any node; a policy that is invalid only at times stops no node."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from tests.support.clusters import KIB, RunningCluster, make_site
from tests.support.contradictions import UNSEEN
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.nodes import RunningNode

FIRST = "set lifetime = 500ms\n</a>.server_resource > 10%\n"
TWO_VALUES = "</a/*>.lifetime = 1s\n</*/b>.lifetime = 2s\n"
UNREADABLE = "</a>.server_resource >> 10 apples\n"


def put(node: RunningNode, text: str) -> tuple[int, str]:
    """The response to `PUT /policy`."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.admin_port}/policy",
        data=text.encode(),
        method="PUT",
        headers={"Content-Type": "text/plain"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_a_bad_policy_changes_nothing_anywhere(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", dict.fromkeys(("a", "door", "gate"), KIB))
    with RunningCluster(site, tmp_path, FIRST, "ab", "--capacity", "2MB/s") as cluster:
        a, b = cluster.nodes["a"], cluster.nodes["b"]
        wait_for(lambda: all(logged(cluster, name) == [FIRST] for name in "ab"), "the first policy in both logs")
        before = [node.admin("/policy") for node in (a, b)]
        for text, told in ((TWO_VALUES, "two values"), (UNREADABLE, "error")):
            status, complaint = put(a, text)
            assert status == 422
            assert told in complaint
        assert [node.admin("/policy") for node in (a, b)] == before == [FIRST, FIRST]

        status, answer = put(b, UNSEEN)
        assert status == 200
        assert "not all were checked" in answer
        wait_for(lambda: a.admin("/policy") == UNSEEN or None, "the policy at a")
        assert [node.get(page).status for node in (a, b) for page in ("/door/page", "/gate/page")] == [200] * 4
        for name in "ab":
            wait_for(lambda: len(logged(cluster, name)) > 1, f"the policy in the log of {name}")  # noqa: B023
            assert logged(cluster, name) == [FIRST, UNSEEN]
            wait_for(lambda: contradicts(cluster.status(name)) or None, f"both conditions to hold at {name}")  # noqa: B023
        groups = wait_for(lambda: at_one_position(cluster), "both at one position")
        assert groups[0]["digest"] == groups[1]["digest"]
        assert [cluster.status(name)["members"] for name in "ab"] == [["a", "b"]] * 2
        assert [node.get("/a/page").status for node in (a, b)] == [200, 200]


def logged(cluster: RunningCluster, name: str) -> list[str]:
    """The policies of a node in the order in which they came into force."""
    return [str(line["text"]) for line in cluster.events(name, "policy")]


def contradicts(status: dict[str, Any]) -> bool:
    return sum(".lifetime" in statement for statement in status["policy"]["in_force"]) == 2


def at_one_position(cluster: RunningCluster) -> list[dict[str, Any]] | None:
    groups = [cluster.status(name)["group"] for name in "ab"]
    return groups if groups[0]["position"] == groups[1]["position"] else None
