"""The fork translates the counts of the primary views to counts of all messages of the view order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cluster.data.order_fork import OrderFork
from cluster.messages import Expertise, Registered
from cluster.names import ProcessId, make_view

A = ProcessId("a")
VIEW = make_view(1, {A: 1})
PRIMARY, DATA = Registered(), Expertise(0, False)


class FakeOrder:
    has_room = True

    def __init__(self) -> None:
        self.acknowledged = 0

    def send(self, body: Any) -> None: ...

    def processed_up_to(self, count: int) -> None:
        self.acknowledged = count


class Client:
    def __init__(self) -> None:
        self.got: list[Any] = []
        self.safe_ones: list[Any] = []
        self.woken = 0

    def new_view(self, view: Any) -> None: ...

    def receive(self, sender: ProcessId, body: Any) -> None:  # noqa: ARG002
        self.got.append(body)

    def safe(self, sender: ProcessId, body: Any) -> None:  # noqa: ARG002
        self.safe_ones.append(body)

    def roomy(self) -> None:
        self.woken += 1


@given(st.lists(st.booleans(), max_size=40), st.data())
def test_what_the_primary_views_processed_is_translated(kinds: list[bool], data: st.DataObject) -> None:
    """`kinds`: whether each message is for the primary views."""
    order, primary, service = FakeOrder(), Client(), Client()
    fork = OrderFork(order, primary, service)  # type: ignore[arg-type]
    fork.new_view(VIEW)
    for is_primary in kinds:
        fork.receive(A, PRIMARY if is_primary else DATA)
        fork.safe(A, PRIMARY if is_primary else DATA)
    assert primary.got == primary.safe_ones == [PRIMARY] * sum(kinds)
    assert service.got == service.safe_ones == [DATA] * (len(kinds) - sum(kinds))
    places = [place for place, is_primary in enumerate(kinds, 1) if is_primary]
    done = data.draw(st.integers(0, len(places)))
    fork.processed_up_to(done)
    assert order.acknowledged == (places[done] - 1 if done < len(places) else len(kinds))


def test_both_clients_learn_of_room_and_counts_begin_anew_in_a_view() -> None:
    order, primary, service = FakeOrder(), Client(), Client()
    fork = OrderFork(order, primary, service)  # type: ignore[arg-type]
    fork.roomy()
    assert (primary.woken, service.woken) == (1, 1)
    assert fork.has_room
    fork.new_view(VIEW)
    fork.receive(A, PRIMARY)
    fork.new_view(VIEW)
    fork.receive(A, DATA)
    assert order.acknowledged == 1
