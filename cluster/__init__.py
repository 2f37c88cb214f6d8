"""Group communication library: totally ordered broadcast and replicated state machines.

The broadcast survives crashes, partitions and merges. `Group` and `Replica` are the library, `Options` configures them.
The names are imported on first use: the pure protocol stack alone needs neither sockets nor disks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.bulk.effects import Outcome
    from cluster.interim.shared_object import SharedObject
    from cluster.layer import Delivered
    from cluster.names import ProcessId, View
    from cluster.replica import StateMachine
    from cluster.reports.publisher import ReportsFull
    from cluster.reports.settings import ReportSettings
    from cluster.runtime.api.bulk import Bulk, BulkClosed, BulkGap, BulkMessage, ReceiveProgress, SendProgress
    from cluster.runtime.api.data_service import DataResult, DataService, QueryableMachine, QueryFailed
    from cluster.runtime.api.delivery_stream import Delivery, FellBehind, PrimaryView, Skipped
    from cluster.runtime.api.group import Full, Group, InDoubt, NotDelivered
    from cluster.runtime.api.interim_service import InterimService
    from cluster.runtime.api.options import Bounds, Options, Tls
    from cluster.runtime.api.replica import Replica
    from cluster.runtime.api.reports import PeerReports, ReportChange, ReportedValue, Reports
    from cluster.runtime.bulk.endpoint import MulticastGroup
    from cluster.runtime.disk.store_errors import StoreError
    from cluster.runtime.fatal_errors import MemberStops
    from cluster.runtime.net.founding_check import AlreadyFounded
    from cluster.runtime.net.handshake import Dialect
    from cluster.runtime.net.keys import BadKey, make_key_file, read_key_file
    from cluster.runtime.net.transport import CannotListen
    from cluster.runtime.observe.metrics import GroupCollector

__all__ = [
    "AlreadyFounded",
    "BadKey",
    "Bounds",
    "Bulk",
    "BulkClosed",
    "BulkGap",
    "BulkMessage",
    "CannotListen",
    "DataResult",
    "DataService",
    "Delivered",
    "Delivery",
    "Dialect",
    "FellBehind",
    "Full",
    "Group",
    "GroupCollector",
    "InDoubt",
    "InterimService",
    "MemberStops",
    "MulticastGroup",
    "NotDelivered",
    "Options",
    "Outcome",
    "PeerReports",
    "PrimaryView",
    "ProcessId",
    "QueryFailed",
    "QueryableMachine",
    "ReceiveProgress",
    "Replica",
    "ReportChange",
    "ReportSettings",
    "ReportedValue",
    "Reports",
    "ReportsFull",
    "SendProgress",
    "SharedObject",
    "Skipped",
    "StateMachine",
    "StoreError",
    "Tls",
    "View",
    "make_key_file",
    "read_key_file",
]

_NAMES_BY_MODULE = {
    "cluster.bulk.effects": ("Outcome",),
    "cluster.runtime.api.bulk": ("Bulk", "BulkClosed", "BulkGap", "BulkMessage", "ReceiveProgress", "SendProgress"),
    "cluster.runtime.bulk.endpoint": ("MulticastGroup",),
    "cluster.interim.shared_object": ("SharedObject",),
    "cluster.layer": ("Delivered",),
    "cluster.names": ("ProcessId", "View"),
    "cluster.replica": ("StateMachine",),
    "cluster.reports.publisher": ("ReportsFull",),
    "cluster.reports.settings": ("ReportSettings",),
    "cluster.runtime.api.data_service": ("DataResult", "DataService", "QueryFailed", "QueryableMachine"),
    "cluster.runtime.api.delivery_stream": ("Delivery", "FellBehind", "PrimaryView", "Skipped"),
    "cluster.runtime.api.group": ("Full", "Group", "InDoubt", "NotDelivered"),
    "cluster.runtime.api.interim_service": ("InterimService",),
    "cluster.runtime.net.handshake": ("Dialect",),
    "cluster.runtime.net.keys": ("BadKey", "make_key_file", "read_key_file"),
    "cluster.runtime.observe.metrics": ("GroupCollector",),
    "cluster.runtime.api.options": ("Bounds", "Options", "Tls"),
    "cluster.runtime.net.founding_check": ("AlreadyFounded",),
    "cluster.runtime.disk.store_errors": ("StoreError",),
    "cluster.runtime.api.replica": ("Replica",),
    "cluster.runtime.api.reports": ("PeerReports", "ReportChange", "ReportedValue", "Reports"),
    "cluster.runtime.fatal_errors": ("MemberStops",),
    "cluster.runtime.net.transport": ("CannotListen",),
}
_MODULES = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
