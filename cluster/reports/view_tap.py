"""Tap between end-point and view order: passes each view also to semantically reliable broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId, View
    from cluster.view_order import ViewOrder


class ReportsViewListener(Protocol):
    """The broadcast itself, or its runner."""

    def on_view(self, view: View, transitional: tuple[ProcessId, ...]) -> None: ...


class ReportsViewTap:
    """Stands in for the view order, or for another tap in front of it."""

    def __init__(self, listener: ReportsViewListener, above: ViewOrder) -> None:
        self._listener = listener
        self._above = above
        self.deliver: Callable[..., None] = above.deliver
        self.block: Callable[..., None] = above.block

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self._listener.on_view(view, transitional)
        self._above.view(view, transitional)
