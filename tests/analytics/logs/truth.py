"""Generates logs with known truth: a fluid cluster that serves exactly the given number of requests per second.

Every second each class sends ``asked`` requests and ``served`` of them are served, all of one size; the others are
denied. Planted faults are changes to these numbers, or to single lines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qosweb.webqos import compile_policy
from qosweb.webqos.model.model import digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BEGIN_S = 1_800_000_000  # a whole number of windows
SIZE = 1000


def hash_of(spec: str) -> str:
    return digest(compile_policy(spec, check=False).require_model())


@dataclass
class Log:
    """Log lines of one cluster; ``lines`` may be changed before they are written."""

    spec: str = ""
    nodes: tuple[str, ...] = ("n1", "n2")
    view: str = "1:aaaa"
    lines: list[dict[str, Any]] = field(default_factory=list)
    policy: str = ""
    _number: int = 0

    def __post_init__(self) -> None:
        if self.spec:
            self.policy = hash_of(self.spec)
            for node in self.nodes:
                self.event("policy", BEGIN_S - 1, node, index=2, policy=self.policy, text=self.spec)

    def event(self, kind: str, ts: float, node: str, **fields: Any) -> Log:
        self.lines.append({"event": kind, "ts": ts, "node": node, **fields})
        return self

    def view_event(self, ts: float, index: int, view: str, members: tuple[str, ...], *, primary: bool = True) -> Log:
        for node in members:
            self.event("view", ts, node, index=index, view=view, members=list(members), primary=primary)
        return self

    def request(self, at_s: float, name: str, decision: str = "served", **fields: Any) -> dict[str, Any]:
        """Adds one line; ``at_s`` is the decision time, from the beginning of the log."""
        self._number += 1
        wait_ms = fields.pop("queue_ms", 0.0)
        service_ms = fields.pop("service_ms", 5.0 if decision == "served" else 0.0)
        status = {"served": 200, "failed": 499, "redirected": 307, "forwarded": 200}.get(decision, 503)
        line = {
            "ts": round(BEGIN_S + at_s - wait_ms / 1000, 6),
            "rid": f"r-{self._number}",
            "node": self.nodes[self._number % len(self.nodes)],
            "view": self.view,
            "policy": self.policy,
            "client": f"10.0.0.{self._number % 7}",
            "method": "GET",
            "host": "h",
            "path": f"{name}/{self._number % 5}.html" if name.startswith("/") else f"/{name}.html",
            "class": name,
            "decision": decision,
            "status": status,
            "bytes": SIZE if decision in ("served", "forwarded") else 60,
            "queue_ms": wait_ms,
            "service_ms": service_ms,
            "total_ms": wait_ms + service_ms,
            **fields,
        }
        self.lines.append(line)
        return line

    def second(self, at_s: int, asked: dict[str, int], served: dict[str, int]) -> Log:
        """Adds one second: of ``asked`` requests of each class ``served`` are served, the others denied at once."""
        for name, count in asked.items():
            done = min(count, served.get(name, 0))
            for number in range(count):
                self.request(at_s + (number + 0.5) / count, name, "served" if number < done else "denied")
        return self

    def run(self, seconds: int, asked: dict[str, int], served: dict[str, int] | None = None, begin: int = 0) -> Log:
        for at_s in range(begin, begin + seconds):
            self.second(at_s, asked, asked if served is None else served)
        return self

    def write(self, path: Path, keep: Callable[[dict[str, Any]], bool] = lambda _: True) -> Path:
        path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines if keep(line)))
        return path
