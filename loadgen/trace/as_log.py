"""Synthetic access log: writes a trace as the log of a simulated cluster, to try an analysis without a server. Pure.

Each class has a fixed part of the capacity to itself and a queue in front of it. A request waits until the requests
ahead of it are served; if that would take longer than the lifetime, it is denied at once. So under overload every class
is served exactly its part, and the truth about the log is known. Lines have the form of qosweb's access log.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from loadgen.trace.request import split_url
from loadgen.trace.synthetic_spec import NO_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from loadgen.trace.request import TraceRequest

DENIED_BYTES = 60
VIEW = "1:aaaa"
_DENIED = f'"denied","status":503,"bytes":{DENIED_BYTES},"queue_ms":0.000,"service_ms":0.050,"total_ms":0.050}}\n'


class Cluster(NamedTuple):
    """The simulated cluster. ``shares`` are parts of the capacity, for all classes of the trace."""

    capacity_bps: float
    size: int
    lifetime_s: float
    nodes: int
    shares: Mapping[str, float]
    begin_s: float
    spec: str


def log_lines(requests: Iterable[TraceRequest], cluster: Cluster) -> Iterator[str]:
    """Yield the lines with their line ends."""
    policy = hashlib.blake2b(cluster.spec.encode(), digest_size=8).hexdigest() if cluster.spec else ""
    names = [f"n{number + 1}" for number in range(cluster.nodes)]
    yield from _events(cluster, policy, names)
    rates = {name: max(1.0, cluster.capacity_bps * share) for name, share in cluster.shares.items()}
    free_at = dict.fromkeys(rates, 0.0)  # when each class has served its queue
    service_s = {name: cluster.size / rate for name, rate in rates.items()}
    quoted = {name: json.dumps(name) for name in rates}
    fixed = [
        f'"node":"{name}","view":"{VIEW}","policy":"{policy}","client":"10.0.{number}.'
        for number, name in enumerate(names)
    ]
    pages: dict[str, str] = {}
    prefix = policy[:8] or "log"
    begin_s, nodes, lifetime_s, size = cluster.begin_s, cluster.nodes, cluster.lifetime_s, cluster.size
    for number, request in enumerate(requests):
        name, t = request.class_name or NO_CLASS, request.t
        page = pages.get(request.url)
        if page is None:
            host, path = split_url(request.url)
            page = f'"host":{json.dumps(host)},"path":{json.dumps(path.partition("?")[0])}'
            if len(pages) < 100_000:
                pages[request.url] = page
        wait_s = free_at[name] - t
        start = f'{{"ts":{begin_s + t:.3f},"rid":"{prefix}-{number}",{fixed[number % nodes]}{number % 251}"'
        start += f',"method":"{request.method}",{page},"class":{quoted[name]},"decision":'
        if wait_s > lifetime_s:
            yield start + _DENIED
            continue
        wait_s = max(wait_s, 0.0)
        took_s = service_s[name]
        free_at[name] = t + wait_s + took_s
        queue_ms, service_ms = wait_s * 1e3, took_s * 1e3
        yield (
            f'{start}"served","status":200,"bytes":{size},"queue_ms":{queue_ms:.3f},"service_ms":{service_ms:.3f},'
            f'"total_ms":{queue_ms + service_ms:.3f}}}\n'
        )


def all_shares(given: Mapping[str, float], classes: Iterable[str]) -> dict[str, float]:
    """The share of each class: the given one, or an equal part of the rest."""
    known = list(dict.fromkeys(name or NO_CLASS for name in classes))
    others = [name for name in known if name not in given]
    left = max(0.0, 1.0 - sum(given.values()))
    return {name: given[name] if name in given else left / len(others) for name in known}


def _events(cluster: Cluster, policy: str, names: list[str]) -> Iterator[str]:
    """The events that nodes log before the first request."""
    for name in names:
        common = {"ts": cluster.begin_s - 1.0, "node": name}
        events: list[dict[str, object]] = [
            {"event": "view", **common, "index": 1, "view": VIEW, "members": names, "primary": True},
            {"event": "capacity", **common, "index": 2, "capacity_bps": int(cluster.capacity_bps / cluster.nodes)},
        ]
        if policy:
            events.append({"event": "policy", **common, "index": 3, "policy": policy, "text": cluster.spec})
        yield from (json.dumps(event, separators=(",", ":")) + "\n" for event in events)
