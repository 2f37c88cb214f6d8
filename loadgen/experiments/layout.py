"""Server layout of an experiment, and so which of ``--nodes`` and ``--spread`` apply to it. Pure."""

from __future__ import annotations

from typing import NamedTuple

EVEN = "even"


class Layout(NamedTuple):
    """``takes_nodes``: its pipe is divided over them. ``why``: what it does not take, it does not take because of."""

    takes_nodes: bool
    takes_spread: bool
    why: str
    over: str = "the nodes"  # what the load is spread over

    def spread(self, nodes: int, given: str) -> str:
        """As it is used; empty if there is nothing to spread a load over."""
        return given if self.takes_spread and (nodes > 1 or not self.takes_nodes) else ""

    def not_applied(self, nodes: int, spread: str) -> list[str]:
        """Options that were given and change nothing here, each with the reason."""
        found = []
        if nodes > 1 and not self.takes_nodes:
            found.append(f"--nodes {nodes} is not applied: {self.why}.")
        if spread != EVEN and not self.spread(nodes, spread):
            why = self.why if not self.takes_spread else "there is one node; say with --nodes how many, such as 3"
            found.append(f"--spread {spread} is not applied: {why}.")
        return found


ONE_PIPE = Layout(True, True, "")
CLUSTER = Layout(False, True, "the experiment says itself which nodes there are", "the nodes that clients ask")
TWO_SIDES = CLUSTER._replace(over="the nodes of each side")
SIDE_BY_SIDE = Layout(False, False, "servers are compared side by side, and each gets the same load")
