"""What happens in the demo's cluster, seen from outside, as lines: views, nodes that come and go, policies, denials.

Pure: a look at all nodes goes in, and what is new since the last look comes out. One line a look tells of denials.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

SHOWN_MAX = 6  # classes in a line about denials


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """One node at one time: its status, None if it did not answer; and how its process ended, if it did."""

    name: str
    status: dict[str, Any] | None
    code: int | None


@dataclass(slots=True)
class ClusterEvents:
    _ended: set[str] = field(default_factory=set)
    _silent: set[str] = field(default_factory=set)
    _cut_off: set[str] = field(default_factory=set)
    _view: str = ""
    _policy: str = ""
    _denied: dict[str, int] = field(default_factory=dict)

    def of(self, looks: list[NodeSnapshot], seconds: float) -> list[str]:
        lines = [line for look in looks for line in self._of_node(look)]
        primary = [look.status for look in looks if look.status is not None and look.status.get("view")]
        if primary:
            latest = max(primary, key=lambda status: (status["view"]["epoch"], status["time_ms"] or 0))
            lines += self._of_cluster(latest)
            lines += self._denials(latest, seconds)
        return lines

    def _of_node(self, look: NodeSnapshot) -> list[str]:
        name = look.name
        if look.code is not None:
            return [] if _known(self._ended, name, is_so=True) else [f"{name} ended ({how_it_ended(look.code)})"]
        silent = look.status is None
        cut_off = look.status is not None and look.status.get("scope") == "local"
        lines = []
        if _known(self._silent, name, is_so=silent) != silent:
            lines.append(f"{name} does not answer" if silent else f"{name} answers again")
        if not silent and _known(self._cut_off, name, is_so=cut_off) != cut_off:
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
        """Those that were turned away, and those that waited in vain."""
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


def how_it_ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _known(names: set[str], name: str, *, is_so: bool) -> bool:
    """Whether it was so before; it is remembered as it is now."""
    before = name in names
    if is_so:
        names.add(name)
    else:
        names.discard(name)
    return before
