"""Entries and policies of other versions: all replicas skip them alike, and report it."""

from __future__ import annotations

import pytest

from cluster.names import ProcessId
from qosweb.engine.replicated import entries
from qosweb.engine.replicated.compiled_policy import CompiledPolicy, OtherLanguage
from qosweb.engine.replicated.effects import EntryRejected
from qosweb.engine.replicated.entries import NodeBatch, NodeReport, PolicyText
from qosweb.engine.replicated.state_machine import QosStateMachine
from qosweb.webqos.model.model import LANGUAGE
from tests.engine.driver import Cluster, policy_of

A = ProcessId("a")
LATER = LANGUAGE + 1
POLICY = policy_of("</x>.server_resource = 50%\n")
OTHER_FORMAT = bytes([entries.FORMAT + 1]) + entries.encode(NodeBatch(10**9, 1))[1:]


def founded() -> Cluster:
    """With a policy of its own."""
    cluster = Cluster("", "ab")
    cluster.tell("a", policy=PolicyText(POLICY.text, POLICY.packed))
    return cluster


def refusals(cluster: Cluster) -> list[EntryRejected]:
    return [effect for effect in cluster.effects if isinstance(effect, EntryRejected)]


@pytest.mark.parametrize(
    "body", [OTHER_FORMAT, b"", b"\xc1", bytes([entries.FORMAT]), entries.encode(NodeBatch(0, 0))[:-1]]
)
def test_invalid_entry_changes_nothing(body: bytes) -> None:
    cluster = founded()
    before = cluster.machine.snapshot()
    cluster.machine.apply(99, A, body)
    assert cluster.machine.snapshot() == before
    assert [(one.position, one.origin, one.text) for one in refusals(cluster)] == [(99, A, None)]


def test_unreadable_first_entry_is_fatal() -> None:
    machine = QosStateMachine(A, CompiledPolicy.empty(), lambda _effect: None)
    with pytest.raises(entries.OtherFormat, match="of format"):
        machine.apply(1, A, OTHER_FORMAT)
    with pytest.raises(entries.OtherFormat, match="of format"):
        machine.restore(bytes([entries.FORMAT + 1]) + founded().machine.snapshot()[1:])


def test_policy_unreadable_to_a_member_is_rejected() -> None:
    cluster = founded()
    cluster.tell("a", report=NodeReport(1_000_000, 0, 0, "", LATER))  # b is not that far
    before = cluster.machine.policy
    cluster.tell("a", policy=PolicyText("later", b"whatever that is", LATER))
    assert cluster.machine.policy is before
    assert [(one.text, one.because) for one in refusals(cluster)] == [
        ("later", f"it is in language {LATER}, but b reads up to {LANGUAGE}")
    ]


def test_policy_without_a_valid_model_is_rejected() -> None:
    cluster = founded()
    cluster.tell("b", policy=PolicyText("none", b"\xc1"))
    assert [one.text for one in refusals(cluster)] == ["none"]
    assert cluster.machine.policy.text == POLICY.text


def test_unreported_member_stops_at_an_unreadable_policy() -> None:
    machine = QosStateMachine(A, CompiledPolicy.empty(), lambda _effect: None)
    with pytest.raises(OtherLanguage, match="this version reads up to"):
        machine.apply(1, ProcessId("b"), entries.encode(NodeBatch(0, 0, policy=PolicyText("later", b"", LATER))))
