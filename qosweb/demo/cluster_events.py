"""Event log of the demo: compares successive status snapshots of all nodes and describes the changes as lines.

Events are new views, nodes that stop or return, policy changes and denials (one line per snapshot). Pure.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

SHOWN_MAX = 6  # classes in a line about denials


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """A node at one time. ``status`` is None if it did not respond; ``code`` is the exit code if it has ended."""

    name: str
    status: dict[str, Any] | None
    code: int | None


@dataclass(slots=True)
class ClusterEvents:
    """Remembers the last snapshot to report each change once."""

    _ended: set[str] = field(default_factory=set)
    _silent: set[str] = field(default_factory=set)
    _cut_off: set[str] = field(default_factory=set)
    _view: str = ""
    _policy: str = ""
    _denied: dict[str, int] = field(default_factory=dict)

    def update(self, snapshots: list[NodeSnapshot], seconds: float) -> list[str]:
        """Describe the changes since the last snapshots, ``seconds`` ago."""
        lines = [line for snapshot in snapshots for line in self._of_node(snapshot)]
        primary = [
            snapshot.status for snapshot in snapshots if snapshot.status is not None and snapshot.status.get("view")
        ]
        if primary:
            latest = max(primary, key=lambda status: (status["view"]["epoch"], status["time_ms"] or 0))
            lines += self._of_cluster(latest)
            lines += self._denials(latest, seconds)
        return lines

    def _of_node(self, node: NodeSnapshot) -> list[str]:
        name = node.name
        if node.code is not None:
            return [] if _update_set(self._ended, name, True) else [f"{name} ended ({describe_exit(node.code)})"]
        silent = node.status is None
        cut_off = node.status is not None and node.status.get("scope") == "local"
        lines = []
        if _update_set(self._silent, name, silent) != silent:
            lines.append(f"{name} does not respond" if silent else f"{name} responds again")
        if not silent and _update_set(self._cut_off, name, cut_off) != cut_off:
            lines.append(f"{name} is cut off and decides alone" if cut_off else f"{name} is back in the cluster")
        return lines

    def _of_cluster(self, status: dict[str, Any]) -> list[str]:
        lines = []
        view, policy = status["view"]["id"], status["policy"]["hash"]
        if view != self._view:
            self._view = view
            members = " ".join(status["members"])
            lines.append(f"primary view {view}: {members}; {status['can_lose'] or 'none'} more may fail")
        if policy != self._policy:
            if self._policy:
                lines.append(f"policy {policy} is in force")
            self._policy = policy
        return lines

    def _denials(self, status: dict[str, Any], seconds: float) -> list[str]:
        """The rate of requests that were denied or cancelled, by class."""
        now = {name: one["cluster"]["denied"] + one["cluster"]["cancelled"] for name, one in status["classes"].items()}
        more = {
            name: count - self._denied[name] for name, count in now.items() if count > self._denied.get(name, count)
        }
        self._denied = now
        if not more or seconds <= 0:
            return []
        most = sorted(more.items(), key=lambda pair: -pair[1])
        shown = ", ".join(f"{name} {_rate(count / seconds)}" for name, count in most[:SHOWN_MAX])
        return [f"not served per second: {shown}{', ...' if len(most) > SHOWN_MAX else ''}"]


def _rate(per_s: float) -> str:
    return f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.1f}"


def describe_exit(code: int) -> str:
    """The exit code of a process, or the name of the signal that ended it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _update_set(names: set[str], name: str, belongs: bool) -> bool:
    """Add or remove ``name``. Return whether it was in the set before."""
    before = name in names
    if belongs:
        names.add(name)
    else:
        names.discard(name)
    return before
