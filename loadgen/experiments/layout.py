"""Server layout of an experiment, and so which of ``--nodes`` and ``--spread`` apply to it. Pure."""

from __future__ import annotations

from typing import NamedTuple

EVEN = "even"


class Layout(NamedTuple):
    """``takes_nodes``: the pipe is divided over ``--nodes``. ``why``: the reason if an option does not apply."""

    takes_nodes: bool
    takes_spread: bool
    why: str
    over: str = "the nodes"  # the servers that the load is spread over

    def spread(self, nodes: int, given: str) -> str:
        """The effective spread; empty if there is only one target."""
        return given if self.takes_spread and (nodes > 1 or not self.takes_nodes) else ""

    def not_applied(self, nodes: int, spread: str) -> list[str]:
        """Given options that have no effect here, each with the reason."""
        found = []
        if nodes > 1 and not self.takes_nodes:
            found.append(f"--nodes {nodes} is not applied: {self.why}.")
        if spread != EVEN and not self.spread(nodes, spread):
            why = (
                self.why
                if not self.takes_spread
                else "there is one node; add --nodes with their number, such as --nodes 3"
            )
            found.append(f"--spread {spread} is not applied: {why}.")
        return found


ONE_PIPE = Layout(True, True, "")
CLUSTER = Layout(False, True, "the experiment has a fixed set of nodes", "the nodes that clients send to")
TWO_SIDES = CLUSTER._replace(over="the nodes of each side")
SIDE_BY_SIDE = Layout(False, False, "servers are compared side by side, and each gets the same load")
