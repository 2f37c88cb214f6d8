"""The fork translates the counts of the view order to counts of all messages of the end-point."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.interim.endpoint_fork import EndpointFork
from cluster.messages import LtMsg, Plain, Registered
from cluster.names import ProcessId, make_view

A, B = ProcessId("a"), ProcessId("b")
VIEW = make_view(1, {A: 1, B: 1})
ORDERED, INTERIM = Plain(0, Registered()), LtMsg(1, (0, 0))


class Source:
    def __init__(self) -> None:
        self.last_dlvrd = 0


class FakeEndpoint:
    """Delivers messages to the fork, and records what it is told to drop."""

    def __init__(self) -> None:
        self.current_view = VIEW
        self.of = {A: Source(), B: Source()}
        self.dropped: list[tuple[int, ...]] = []

    def send(self, body: Any) -> None: ...
    def block_ok(self) -> None: ...

    def stable(self, counts: tuple[int, ...]) -> None:
        self.dropped.append(counts)


class Client:
    def __init__(self) -> None:
        self.got: list[Any] = []

    def deliver(self, sender: ProcessId, body: Any) -> None:
        self.got.append((sender, body))

    def view(self, view: Any, transitional: Any) -> None: ...
    def block(self) -> None: ...


@given(st.lists(st.booleans(), max_size=40), st.data())
def test_counts_of_the_view_order_are_translated(kinds: list[bool], data: st.DataObject) -> None:
    """`kinds`: whether each message of A is of the view order."""
    endpoint, order, interim = FakeEndpoint(), Client(), Client()
    fork = EndpointFork(endpoint, order, interim)  # type: ignore[arg-type]
    for is_ordered in kinds:
        endpoint.of[A].last_dlvrd += 1
        fork.deliver(A, ORDERED if is_ordered else INTERIM)
    assert len(order.got) == sum(kinds)
    assert len(interim.got) == len(kinds) - sum(kinds)
    places = [0, *(place for place, is_ordered in enumerate(kinds, 1) if is_ordered)]
    known = 0  # what all members have, as reported so far
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            known = max(known, data.draw(st.integers(0, len(kinds))))
            fork.stable_in_all((known, 0))
        else:
            count = data.draw(st.integers(0, sum(kinds)))
            known = max(known, places[count])
            fork.stable((count, 0))
            assert places[count] <= max(endpoint.dropped[-1][0], known)
        assert endpoint.dropped[-1][0] <= known, "a message is dropped that some member may lack"
        assert endpoint.dropped[-1][1] == 0


def test_a_new_view_starts_again() -> None:
    endpoint = FakeEndpoint()
    fork = EndpointFork(endpoint, Client(), Client())  # type: ignore[arg-type]
    for index in range(1, 4):
        endpoint.of[A].last_dlvrd = index
        fork.deliver(A, INTERIM)
    fork.stable_in_all((3, 0))
    fork.view(VIEW, (A, B))
    endpoint.of[A].last_dlvrd = 1
    fork.deliver(A, ORDERED)
    fork.stable((1, 0))
    assert endpoint.dropped[-1] == (1, 0)
