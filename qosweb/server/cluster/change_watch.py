"""Notes releases and blocks in the event history: from the requests of operators, and by comparing the state in force.

Neighbours: `live_figures` calls it. The access recorder notes the events that have a line in the access log.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from qosweb.blocklist.operations import BlockOperation
from qosweb.units import pluralize

if TYPE_CHECKING:
    from qosweb.blocklist.operations import AnyOperation
    from qosweb.server.process.node import Node

OPERATIONS_MAX = 5  # of the block list that are noted one by one at each look: a script may block thousands


class ChangeWatch:
    """Compares releases and blocks in force with those at the previous call."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._release = 0
        self._blocks = len(node.blocking.blocks)
        self._operations: deque[AnyOperation] = deque(maxlen=OPERATIONS_MAX)  # since then
        self._operation_count = 0
        node.blocking.blocks.on_operation = self._on_operation

    def observe(self) -> None:
        self._observe_release()
        self._observe_blocks()

    def _observe_release(self) -> None:
        releases = self._node.releases
        if releases is None or releases.site.number == self._release:
            return
        self._release = releases.site.number
        self._add("release", f"release {self._release} is served")

    def _on_operation(self, operation: AnyOperation) -> None:
        self._operations.append(operation)
        self._operation_count += 1

    def _observe_blocks(self) -> None:
        blocks = self._node.blocking.blocks
        count = f"{pluralize(len(blocks), 'block')} in all"
        if more := self._operation_count - len(self._operations):
            self._add("block", f"{pluralize(more, 'change')} of the block list before the next ones")
        for operation in self._operations:
            self._add("block", f"{_told(operation)}; {count}")
        if not self._operations and len(blocks) != self._blocks:
            what = "blocks ended" if len(blocks) < self._blocks else "blocks came from other nodes"
            self._add("block", f"{what}; {count}")
        self._operations.clear()
        self._operation_count = 0
        self._blocks = len(blocks)

    def _add(self, kind: str, text: str) -> None:
        clock = self._node.clock
        self._node.recorder.events.add(clock.wall(clock.read()), kind, text)


def _told(operation: AnyOperation) -> str:
    """A sentence with the operator, the change and the node."""
    who = f"{operation.by or 'an operator'} at {operation.node}" if operation.node else "an operator"
    what = f"{operation.network} {operation.path}".rstrip()
    if not isinstance(operation, BlockOperation):
        return f"{what} is unblocked by {who}"
    return f"{what} is blocked by {who}" + (f": {operation.reason}" if operation.reason else "")
