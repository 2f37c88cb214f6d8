"""Servers shared by several nodes: one limit and one queue, members that leave and return, decisions, snapshots."""

from __future__ import annotations

from qosweb.engine.replicated.effects import SlotGranted
from qosweb.engine.replicated.entries import NodeReport, NodeRestatement
from qosweb.engine.replicated.pool_batch import PoolBatch
from qosweb.engine.replicated.servers import KEPT_MS, RESERVED_MS, Server
from qosweb.engine.replicated.state_machine import QosStateMachine
from qosweb.engine.replicated.upstreams import UpstreamReport, Vote
from tests.engine.driver import Cluster, policy_of

KEY = ("app",)
SLOTS = 6
SPEC = "</a>.server_resource = 60%\n</b>.server_resource = 40%\n"


class Gateways(Cluster):
    """Nodes in front of one server with SLOTS slots."""

    def __init__(self, having: str = "abc", spec: str = SPEC) -> None:
        super().__init__(spec, having or "ab")
        for name in having:
            self.has_server(name)

    def has_server(self, name: str) -> None:
        self.tell(name, upstreams=[UpstreamReport("app", "http://app", True, 1, SLOTS, (), ())])

    @property
    def server(self) -> Server:
        return self.machine.servers.servers["app"]

    def submit(self, node: str, *numbers: int, of: str = "/a") -> None:
        at = self.number(of)
        self.tell(node, pools=[PoolBatch(KEY, submitted=[(number, at, 10_000) for number in numbers])])
        self.all_is_told(node)

    def all_is_told(self, node: str) -> None:
        """Time passes, until no slots are kept for what other nodes may have started at once."""
        self.tell(node, self.machine.time_ms + KEPT_MS)

    def finish(self, node: str, *numbers: int) -> None:
        self.tell(node, pools=[PoolBatch(KEY, finished=[(number, 20_000) for number in numbers])])

    def held(self) -> set[str]:
        return {f"{owner.name}{number}" for owner, number in self.server.uses}

    @property
    def waiting(self) -> int:
        return len(self.machine.servers.pools[KEY].waiting)


def test_the_nodes_share_one_limit_and_one_queue() -> None:
    cluster = Gateways()
    cluster.submit("a", 1, 2, 3, 4)
    cluster.submit("b", 1, 2, 3, 4)
    assert cluster.held() == {"a1", "a2", "a3", "a4", "b1", "b2"}
    cluster.finish("a", 2)
    assert cluster.held() == {"a1", "b3", "a3", "a4", "b1", "b2"}  # the one that has waited longest, wherever it is
    granted = [one.number for one in cluster.effects if isinstance(one, SlotGranted)]
    assert granted == [1, 2, 3, 4]  # this node's own


def test_slots_that_nodes_may_have_taken_are_kept_until_they_have_told() -> None:
    cluster = Gateways()
    at = cluster.number("/a")
    cluster.tell("a", pools=[PoolBatch(KEY, submitted=[(number, at, 10_000) for number in range(9)])])
    assert len(cluster.server.uses) == 3  # each node may have taken two slots, and one each may be too many
    assert cluster.machine.wake_ms == cluster.machine.time_ms + KEPT_MS
    cluster.tell("b", pools=[PoolBatch(KEY, started=[(number, at, 10_000, "app") for number in range(2)])])
    assert len(cluster.server.uses) == 5
    cluster.tell("a", cluster.machine.time_ms + KEPT_MS)
    assert len(cluster.server.uses) == SLOTS


def test_the_part_of_a_member_that_left_without_notice_is_reserved_for_a_while() -> None:
    cluster = Gateways()
    cluster.submit("c", 1, 2, 3)
    cluster.view("ab")
    until_ms = cluster.machine.time_ms + RESERVED_MS
    assert cluster.server.slots == SLOTS - SLOTS // 3
    cluster.submit("a", *range(1, 10))
    assert len(cluster.server.uses) == SLOTS - SLOTS // 3
    assert cluster.machine.wake_ms == until_ms
    cluster.tell("a", at_ms=until_ms - 1)
    assert len(cluster.server.uses) == SLOTS - SLOTS // 3
    cluster.tell("a", at_ms=until_ms)
    assert len(cluster.server.uses) == SLOTS


def test_a_reservation_ends_when_the_member_returns_and_it_restates_its_slots() -> None:
    cluster = Gateways()
    cluster.view("ab")
    cluster.submit("a", *range(1, 10))
    cluster.view("abc")
    cluster.has_server("c")
    assert len(cluster.server.uses) == SLOTS - SLOTS // 3  # until it has told what it started meanwhile
    running = [PoolBatch(KEY, running=[(1, 0, 10_000, "app")])]
    cluster.tell("c", restated=NodeRestatement(1, [], []), pools=running)
    assert "c1" in cluster.held()
    assert len(cluster.server.uses) == SLOTS


def test_nothing_is_reserved_for_a_member_that_announced_its_leave() -> None:
    cluster = Gateways()
    cluster.tell("c", report=NodeReport(0, 0, 0, ""))
    cluster.view("ab")
    assert cluster.server.slots == SLOTS


def test_requests_of_a_member_that_left_hold_and_await_nothing() -> None:
    cluster = Gateways()
    cluster.submit("b", *range(1, 10))
    cluster.view("a")
    assert not cluster.server.uses
    assert not cluster.waiting


def test_one_member_decides_the_limit_until_it_leaves() -> None:
    cluster = Gateways()
    cluster.tell("b", limits=[("app", 2, 2, 2)])
    assert cluster.server.bound == SLOTS
    cluster.tell("a", limits=[("app", 3, 4, 2)])
    cluster.tell("a", limits=[("app", 5, 5, 2)])  # an earlier decision
    assert (cluster.server.limit, cluster.server.level, cluster.server.epoch) == (3, 4, 2)
    cluster.tell("a", limits=[("app", 100, 100, 3)])
    assert cluster.server.bound == SLOTS  # by hand
    cluster.view("bc")
    cluster.tell("b", limits=[("app", 2, 2, 4)])
    cluster.view("abc")
    cluster.has_server("a")
    cluster.tell("a", limits=[("app", 6, 6, 5)])  # b goes on
    assert cluster.server.limit == 2


def test_a_lower_limit_takes_no_slot_away_but_grants_none_either() -> None:
    cluster = Gateways()
    cluster.submit("a", *range(1, 10))
    cluster.tell("a", limits=[("app", 2, 2, 2)])
    assert len(cluster.server.uses) == SLOTS
    cluster.finish("a", 1, 2, 3, 4)
    assert len(cluster.server.uses) == 2
    cluster.finish("a", 5)
    assert len(cluster.server.uses) == 2


def test_a_restored_replica_goes_on_alike() -> None:
    cluster = Gateways()
    cluster.submit("a", *range(1, 10))
    cluster.submit("b", *range(1, 10), of="/b")
    cluster.tell("a", limits=[("app", 3, 4, 2)])
    cluster.view("ab")
    other = QosStateMachine(cluster.pids["b"], policy_of(""), lambda _: None)
    other.restore(cluster.machine.snapshot())
    assert other.snapshot() == cluster.machine.snapshot()
    first, cluster.machine = cluster.machine, other
    for machine in (first, other):
        cluster.machine, cluster.position = machine, 100
        cluster.finish("a", 1, 2)
        cluster.tell("b", at_ms=RESERVED_MS + 5)
        cluster.finish("b", 1)
    assert other.snapshot() == first.snapshot()


def test_a_new_policy_keeps_slots_and_queues() -> None:
    cluster = Gateways()
    cluster.submit("a", *range(1, 10), of="/b")
    cluster.machine.change_policy(50, policy_of("</other>.server_resource > 10%\n"))
    cluster.check()
    assert len(cluster.server.uses) == SLOTS
    assert cluster.waiting == 3
    cluster.finish("a", 1)
    assert cluster.waiting == 2


def two_pools(spec: str = SPEC, *, outs: str = "") -> Gateways:
    """Node a reaches the servers app and other, node b only app. Node a votes that the servers of `outs` are out."""
    cluster = Gateways("", spec)
    for node, names in (("a", ("app", "other")), ("b", ("app",))):
        cluster.tell(
            node,
            upstreams=[
                UpstreamReport(
                    name, f"http://{name}", True, 1, SLOTS, (), (), Vote.OUT if name in outs else Vote.UNKNOWN
                )
                for name in names
            ],
        )
    return cluster


def test_a_pool_counts_slots_of_a_server_that_other_pools_use_too() -> None:
    cluster = two_pools("</a>.server_resource < 50% hard\n")
    at = cluster.number("/a")
    cluster.tell("a", pools=[PoolBatch(("app", "other"), started=[(one, at, 10_000, "app") for one in range(4)])])
    cluster.submit("b", 1)
    assert cluster.held() == {"a0", "a1", "a2", "a3"}  # class /a has half of the six slots already, and more


def test_a_server_that_is_out_stays_out_for_pools_with_other_servers() -> None:
    """For the pool of node b it is the only one, and better than none."""
    cluster = two_pools(outs="app")
    at = cluster.number("/a")
    cluster.tell("a", pools=[PoolBatch(("app", "other"), submitted=[(one, at, 10_000) for one in range(9)])])
    cluster.all_is_told("a")
    assert not cluster.server.uses
    assert len(cluster.machine.servers.servers["other"].uses) == SLOTS
    cluster.submit("b", 1)
    assert cluster.held() == {"b1"}


def test_pools_take_turns_at_a_server_that_they_share() -> None:
    cluster = two_pools()
    at = cluster.number("/a")
    cluster.tell("b", pools=[PoolBatch(KEY, started=[(one, at, 10_000, "app") for one in range(SLOTS)])])
    cluster.tell("a", pools=[PoolBatch(("app", "other"), submitted=[(one, at, 10_000) for one in range(SLOTS + 1)])])
    cluster.tell("b", cluster.machine.time_ms + 1)
    cluster.submit("b", 100)
    cluster.tell("b", cluster.machine.time_ms + 1)
    cluster.tell("a", pools=[PoolBatch(("app", "other"), submitted=[(one, at, 10_000) for one in range(50, 60)])])
    cluster.finish("b", 0)
    assert "a6" in cluster.held()  # it has waited longest
    cluster.finish("b", 1)
    assert "b100" in cluster.held()


def test_restated_requests_of_always_available_classes_count_as_such() -> None:
    cluster = Gateways(spec="</now>.available = always\n")
    at = cluster.number("/now")
    cluster.tell("a", pools=[PoolBatch(KEY, running=[(1, at, 10_000, "app")])])
    assert cluster.server.always == 1
