"""Joint state: the attributes of all running processes that the invariants read.

Every attribute that an invariant reads is named here and nowhere else. The names are the papers'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cluster.entries import Entry
    from cluster.messages import Ordered, SyncMsg
    from cluster.names import Label, ProcessId, View, ViewId


class PrimaryState(Protocol):
    """VS-TO-DVS_p"""

    @property
    def cur(self) -> View | None: ...
    @property
    def client_cur(self) -> View | None: ...
    @property
    def act(self) -> View | None: ...
    @property
    def amb(self) -> Mapping[ViewId, View]: ...


class TotalOrderState(Protocol):
    """DVS-TO-TO_p. `log` is order from `base` on, with content."""

    @property
    def current(self) -> View | None: ...
    @property
    def status(self) -> str: ...
    @property
    def base(self) -> int: ...
    @property
    def log(self) -> list[tuple[Label, Entry]]: ...
    @property
    def next_confirm(self) -> int: ...
    @property
    def next_report(self) -> int: ...
    @property
    def high_primary(self) -> ViewId | None: ...


class QueueState(Protocol):
    """msgs[q][v]: of the first `prefix` messages all but the first `dropped`."""

    @property
    def prefix(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    def __getitem__(self, index: int) -> Ordered: ...


class SourceState(Protocol):
    """What the end-point keeps about one process q."""

    @property
    def view_msg(self) -> View: ...
    @property
    def last_dlvrd(self) -> int: ...
    @property
    def msgs(self) -> QueueState: ...
    @property
    def later(self) -> QueueState | None: ...


class EndpointState(Protocol):
    """GCS_p"""

    @property
    def current_view(self) -> View: ...
    @property
    def mbrshp_view(self) -> View: ...
    @property
    def start_change_now(self) -> tuple[int, tuple[ProcessId, ...]] | None: ...
    @property
    def sync_msg(self) -> Mapping[ProcessId, SyncMsg]: ...
    @property
    def sync_before(self) -> Mapping[ProcessId, SyncMsg]: ...
    @property
    def reliable_set(self) -> tuple[ProcessId, ...]: ...
    @property
    def block_status(self) -> str: ...
    @property
    def of(self) -> Mapping[ProcessId, SourceState]: ...


class ReplicaState(Protocol):
    """What the application was told."""

    @property
    def primary(self) -> View | None: ...


class ProcessState(Protocol):
    @property
    def primary(self) -> PrimaryState: ...
    @property
    def total_order(self) -> TotalOrderState: ...
    @property
    def endpoint(self) -> EndpointState: ...
    @property
    def replica(self) -> ReplicaState: ...


Joint = Mapping["ProcessId", ProcessState]


def order_length(state: TotalOrderState) -> int:
    return state.base + len(state.log)


def label_at(state: TotalOrderState, position: int) -> Label | None:
    """order(position), or None if it was dropped or is not there yet."""
    i = position - state.base
    return state.log[i][0] if 0 <= i < len(state.log) else None
