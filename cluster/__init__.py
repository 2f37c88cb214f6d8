"""A totally ordered broadcast that survives crashes, partitions and merges; primary views; replicated state machines.

`Group`, `Replica` and `Options` are the library. They are imported when they are first asked for: who uses the pure
stack alone pays nothing for sockets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.replica import StateMachine as StateMachine
    from cluster.runtime.api.group import Group as Group
    from cluster.runtime.api.group import NotDelivered as NotDelivered
    from cluster.runtime.api.options import Options as Options
    from cluster.runtime.api.replica import Replica as Replica

_PUBLIC = {
    "Group": "cluster.runtime.api.group",
    "NotDelivered": "cluster.runtime.api.group",
    "Options": "cluster.runtime.api.options",
    "Replica": "cluster.runtime.api.replica",
    "StateMachine": "cluster.replica",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'cluster' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
