"""Clients of the data service in the simulator. They block; they may give up, and go on at another node.

Paper: Khazan, Fekete and Lynch, DISC 1998, fig. 3. The clients report the actions of the interface of the service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from cluster.actions import DataGone, DataReply, DataRequest
from cluster.layer import Delivered, QueryAnswered
from cluster.sim.node import QUERY, SUBMIT, WITHDRAW

if TYPE_CHECKING:
    from collections import Counter

    from cluster.sim.data.plan import ClientStep
    from cluster.sim.node import SimNode
    from cluster.sim.world import World
    from cluster.stack import Process

NOT_ACCEPTED = 0  # ticket of a request that its process has not seen yet


class Client:
    """A client: the state it has seen, and the request it waits for."""

    __slots__ = ("last", "name", "node", "step", "ticket")

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = 0
        self.step: ClientStep | None = None  # the request it waits for
        self.node: SimNode | None = None  # where it made it
        self.ticket = NOT_ACCEPTED

    def forget_request(self) -> None:
        self.step, self.node, self.ticket = None, None, NOT_ACCEPTED


class DataClients:
    """All clients of a run, as the listener of its nodes."""

    def __init__(self, world: World, sometimes: Counter[str]) -> None:
        self._world = world
        self._sometimes = sometimes
        self._clients: dict[str, Client] = {}

    def act(self, step: ClientStep) -> None:
        client = self._clients.setdefault(step.client, Client(step.client))
        if client.step is not None:
            if not step.gives_up:
                return
            self._give_up(client)
        node = self._world.nodes[step.node]
        if node.process is None or node.leaving:
            self._sometimes["a client finds its node down"] += 1
            return
        client.step, client.node = step, node
        if step.is_update:
            node.put(SUBMIT, None, step.body)
        else:
            node.put(QUERY, None, (step.body, client.last))

    def _give_up(self, client: Client) -> None:
        node, step = client.node, client.step
        assert node is not None
        assert step is not None
        self._sometimes["a client gives up"] += 1
        ticket = client.ticket
        client.forget_request()
        if ticket != NOT_ACCEPTED:
            self._world.step(node.pid, DataGone(client.name))
            if not step.is_update:
                node.put(WITHDRAW, None, ticket)

    # ---- for the nodes

    def accepted(self, node: SimNode, body: bytes, ticket: int) -> None:
        for client in self._clients.values():
            step = client.step
            if step is not None and step.body == body and client.node is node:
                client.ticket = ticket
                self._world.step(node.pid, DataRequest(client.name, ticket, step.is_update, body, client.last))
                return
        if body.startswith(b"q"):
            node.put(WITHDRAW, None, ticket)  # the client left before its request was seen

    def ended(self, node: SimNode, end: Delivered | QueryAnswered) -> None:
        is_update = isinstance(end, Delivered)
        client = self._waiting(node, end.ticket, is_update=is_update)
        if client is None:
            return
        if isinstance(end, QueryAnswered):
            answer, index = end.answer, end.index
        elif not end.delivered:
            client.forget_request()
            self._world.step(node.pid, DataGone(client.name))
            return
        elif end.position < 0:  # inside a snapshot
            answer, index = b"", cast("Process", node.process).total_order.next_report
        else:
            answer, index = repr(end.result).encode(), end.position + 1
        step = client.step
        client.forget_request()
        if step is not None and step.then:
            self._world.events.at(self._world.events.now, self.act, step.next(self._world.events.now))
        if node.primary is None and not is_update:
            self._sometimes["a query is answered outside a primary view"] += 1
        client.last = index
        self._world.step(node.pid, DataReply(client.name, end.ticket, is_update, answer, index))

    def crashed(self, node: SimNode) -> None:
        """The clients of this node lost their requests."""
        for client in self._clients.values():
            if client.node is node:
                client.forget_request()

    def _waiting(self, node: SimNode, ticket: int, *, is_update: bool) -> Client | None:
        return next(
            (
                client
                for client in self._clients.values()
                if client.node is node
                and client.ticket == ticket
                and client.step is not None
                and client.step.is_update == is_update
            ),
            None,
        )
