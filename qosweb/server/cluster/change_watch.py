"""Notes releases and blocks in the event history, by comparing what is in force every few seconds.

Neighbours: `live_figures` calls it. The access recorder notes the events that have a line in the access log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.units import pluralize

if TYPE_CHECKING:
    from qosweb.server.process.node import Node

NEWEST_MAX = 20  # blocks among which the newest is looked for


class ChangeWatch:
    """What was in force at the last look."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._release = 0
        self._blocks = 0
        self._newest = 0.0  # when the newest block was made

    def observe(self) -> None:
        self._observe_release()
        self._observe_blocks()

    def _observe_release(self) -> None:
        releases = self._node.releases
        if releases is None or releases.site.number == self._release:
            return
        self._release = releases.site.number
        self._add("release", f"release {self._release} is served")

    def _observe_blocks(self) -> None:
        """A list may have very many entries: only its newest ones are looked at."""
        blocks = self._node.blocking.blocks
        newest = blocks.listed(NEWEST_MAX) if blocks else []
        count = f"{pluralize(len(blocks), 'block')} in all"
        if newest and newest[0].block.at_s > self._newest:
            one = newest[0].block
            self._newest = one.at_s
            why = f": {one.reason}" if one.reason else ""
            self._add(
                "block", f"{one.network} {one.path}".rstrip() + f" is blocked by {one.by or one.node}{why}; {count}"
            )
        elif len(blocks) < self._blocks:
            self._add("block", f"blocks ended or were removed; {count}")
        self._blocks = len(blocks)

    def _add(self, kind: str, text: str) -> None:
        clock = self._node.clock
        self._node.recorder.events.add(clock.wall(clock.read()), kind, text)
