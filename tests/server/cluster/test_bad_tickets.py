"""Bad tickets at running nodes: logged, counted in the status, and queued like other requests; no channel is lost."""

from __future__ import annotations

import base64
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest

from tests.support.clusters import RunningCluster, make_site
from tests.support.redirects import PAGES, PIPE, SPEC, Sent, ask, in_use, sent_to_b
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.timing

LATE_MS = 4_500  # how long a channel is held, and what clocks may differ by


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("tickets")
    site = make_site(folder / "site", PAGES)
    with RunningCluster(site, folder, SPEC, "ab", *PIPE) as cluster:
        yield cluster


def judged(cluster: RunningCluster, name: str, verdict: str) -> int:
    return int(cluster.status(name)["tickets"].get(verdict, 0))


def present(cluster: RunningCluster, name: str, target: str, verdict: str) -> None:
    """Send a request with a ticket: the verdict is as expected, and the page is served in any case."""
    node, before = cluster.nodes[name], judged(cluster, name, verdict)
    with node.connect() as connection:
        ask(connection, target, node.url.partition("//")[2])
        assert connection.read_reply().status == 200
    assert judged(cluster, name, verdict) == before + 1
    if verdict != "good":
        line = f"is {verdict}; its request is queued like any other"
        wait_for(lambda: any(line in said for said in node.stderr) or None, f"a line about a ticket that {line}")


def present_good(cluster: RunningCluster, before: Callable[[Sent], None] = lambda _: None) -> Sent:
    """Get a ticket, run an action before it is used, then use it. Retries if a slow machine made it late."""

    def try_once() -> Sent | None:
        sent = sent_to_b(cluster)
        before(sent)
        if cluster.status("b")["time_ms"] > sent.until_ms:
            return None
        late = judged(cluster, "b", "late")
        try:
            present(cluster, "b", sent.target, "good")
        except AssertionError:
            if judged(cluster, "b", "late") == late or cluster.status("b")["time_ms"] <= sent.until_ms:
                raise
            return None
        return sent

    return wait_for(try_once, "a ticket to be brought in time")


def forgeries(target: str) -> list[str]:
    path, _, text = target.partition("qos-ticket=")
    said = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    found = []
    for at in (0, 1, len(said) // 2, len(said) - 1):
        other = bytes(said[:at]) + bytes([said[at] ^ 1]) + bytes(said[at + 1 :])
        found.append(path + "qos-ticket=" + base64.urlsafe_b64encode(other).rstrip(b"=").decode())
    return [*found, path + "qos-ticket=", path + "qos-ticket=" + "A" * 500, path + "qos-ticket=%F0%9F%8E%AB"]


def test_a_good_ticket_is_good_once(cluster: RunningCluster) -> None:
    present(cluster, "b", present_good(cluster).target, "used")


def test_a_forged_ticket(cluster: RunningCluster) -> None:
    def bring_forgeries(sent: Sent) -> None:
        for forged in forgeries(sent.target):
            present(cluster, "b", forged, "forged")

    present_good(cluster, bring_forgeries)  # the forgeries have not used the ticket up


def test_a_ticket_for_another_page_or_node(cluster: RunningCluster) -> None:
    def bring_elsewhere(sent: Sent) -> None:
        present(cluster, "b", sent.target.replace("/thin/", "/other/"), "for another page")
        present(cluster, "a", sent.target, "for another node")

    present_good(cluster, bring_elsewhere)


def test_a_late_ticket_and_the_channel_held_for_it(cluster: RunningCluster) -> None:
    target = sent_to_b(cluster).target
    late_ms = cluster.status("b")["time_ms"] + LATE_MS
    wait_for(lambda: cluster.status("b")["time_ms"] > late_ms or None, "the ticket is late")
    present(cluster, "b", target, "late")
    wait_for(lambda: not in_use(cluster) or None, "no channel is held for anybody")


def test_only_a_good_ticket_sets_the_request_id_in_the_log(cluster: RunningCluster) -> None:
    """A redirected request has one id in the logs of both nodes; no other id occurs twice."""
    b = cluster.nodes["b"]
    with b.connect() as connection:
        ask(connection, "/the-last")
        assert connection.read_reply().status == 404
    wait_for(lambda: any(line["path"] == "/the-last" for line in cluster.requests("b")) or None, "all lines of b")
    said = defaultdict(list)
    for name in "ab":
        for line in cluster.requests(name):
            said[line["rid"]].append(f"{line['decision']} at {name}")
    both = [of_one for of_one in said.values() if len(of_one) > 1]
    assert both == [["redirected at a", "served at b"]] * judged(cluster, "b", "good")
    assert both
    assert judged(cluster, "b", "used")
    assert judged(cluster, "b", "forged")


def test_bad_tickets_leave_no_state_behind(cluster: RunningCluster) -> None:
    for node in cluster.nodes.values():
        assert node.get("/thin/page").status == 200
        assert not any("internal error" in line or "Traceback" in line for line in node.stderr)
    wait_for(lambda: not in_use(cluster) or None, "no channel is held for anybody")
    assert cluster.status("a")["members"] == ["a", "b"]
