"""A process is built from the list of layers: construction, connections, observers."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from cluster.durable import founding_image
from cluster.messages import Payload
from cluster.names import ProcessId
from cluster.runtime.observe.observer import AttemptTap, ChangeTap, HearingTap, Observer, OrderTap, ViewTap
from cluster.settings import Settings
from cluster.sim.history_machine import History
from cluster.sim.seeded_random import SeededRandom
from cluster.stack import ORDERS, STACK, Process, neighbours

A = ProcessId("a")


def made(order: str = "atop", **more: Any) -> Process:
    return Process(A, Settings(order=order), founding_image(A), History(), SeededRandom(1), **more)


def layers_of_the_stack() -> list[type]:
    """The classes of all layers, with both view orders."""
    kinds = [type(getattr(made(order), row.name)) for order in ORDERS for row in STACK]
    return list(dict.fromkeys(kinds))


def wire_by_hand(of: Process) -> None:
    """The connections that the list defines. A type checker compares each neighbour with the expected protocol."""
    of.links.detector, of.links.membership = of.detector, of.membership
    of.detector.above = of.membership
    of.membership.links, of.membership.detector, of.membership.above = of.links, of.detector, of.endpoint
    of.endpoint.links, of.endpoint.above = of.links, of.order
    of.order.below, of.order.above, of.order.links = of.endpoint, of.primary, of.links
    of.primary.below, of.primary.above = of.order, of.total_order
    of.total_order.below, of.total_order.above, of.total_order.links = of.primary, of.replica, of.links
    of.replica.below = of.total_order


def tap_by_hand(of: Process, watch: Observer) -> None:
    of.detector.above = HearingTap(watch, of, of.membership)
    of.endpoint.above = ViewTap(watch, of.order)
    of.primary.above = AttemptTap(watch, of.total_order)
    of.total_order.above = OrderTap(watch, of.replica, None)


def wired(process: Process) -> dict[str, object]:
    layers = {row.name: getattr(process, row.name) for row in STACK}
    return {f"{name}.{near}": getattr(one, near) for name, one in layers.items() for near in neighbours(type(one))}


@pytest.mark.parametrize("order", ORDERS)
def test_every_layer_gets_its_neighbours(order: str) -> None:
    process = made(order)
    found = wired(process)
    wire_by_hand(process)
    assert wired(process) == found


def test_an_observer_is_inserted_at_its_taps() -> None:
    watch = Observer()
    process = made(taps=watch.taps)
    found = {name: type(one) for name, one in wired(process).items()}
    tap_by_hand(process, watch)
    assert {name: type(one) for name, one in wired(process).items()} == found
    assert found["membership.above"] is ChangeTap


def test_every_payload_of_the_links_has_a_receiver() -> None:
    assert made().links.above.keys() == set(typing.get_args(Payload))


def test_a_tap_stands_between_two_layers() -> None:
    seen = []

    class Tap:
        def __init__(self, process: Process, above: Any) -> None:
            self._above = above
            seen.append((process.context.me, above))

        def __getattr__(self, name: str) -> Any:
            return getattr(self._above, name)

    process = made(taps={"primary": Tap})
    assert seen == [(A, process.total_order)]
    assert isinstance(process.primary.above, Tap)
    assert process.total_order.below is process.primary


def test_a_tap_above_an_unknown_layer_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown layer: transport"):
        made(taps={"transport": lambda _process, above: above})
