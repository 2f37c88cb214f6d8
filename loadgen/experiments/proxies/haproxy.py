"""HAProxy: a priority queue in front of the slow server, or a concurrency limit and a queue for each class.

Few requests are forwarded at a time, so that the others wait in HAProxy's queue, where it can choose among them.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from loadgen.experiments.proxies.proxy import Proxy

if TYPE_CHECKING:
    from loadgen.experiments.proxies.proxy import ProxyTask

_AT_A_TIME = 10
_CONFIG = """
global
    maxconn 8192
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 120s
    timeout server 120s
    timeout queue {wait_ms}ms
frontend here
    bind 127.0.0.1:{port} backlog 4096
{rules}
{backends}
"""


def installed() -> bool:
    return shutil.which("haproxy") is not None


def prioritised(name: str, task: ProxyTask) -> Proxy:
    """Priority by guaranteed share: a larger share comes first."""
    order = sorted(task.parts, key=lambda one: -task.parts[one])
    rules = [f"    http-request set-priority-class int({at}) if {{ path_beg {one}/ }}" for at, one in enumerate(order)]
    backends = ["backend slow", f"    server slow {task.host} maxconn {_AT_A_TIME}"]
    return _haproxy(name, task, [*rules, "    default_backend slow"], backends)


def placed(name: str, task: ProxyTask) -> Proxy:
    """A concurrency limit for each class, in proportion to its guaranteed share."""
    rules, backends = [], []
    for at, (class_name, places) in enumerate(task.places(_AT_A_TIME).items()):
        rules.append(f"    use_backend slow{at} if {{ path_beg {class_name}/ }}")
        backends += [f"backend slow{at}", f"    server slow {task.host} maxconn {places}"]
    return _haproxy(name, task, rules, backends)


def _haproxy(name: str, task: ProxyTask, rules: list[str], backends: list[str]) -> Proxy:
    def config(port: int) -> str:
        return _CONFIG.format(
            wait_ms=round(task.wait_s * 1e3), port=port, rules="\n".join(rules), backends="\n".join(backends)
        )

    return Proxy(name, task, config, lambda file: ["haproxy", "-db", "-f", str(file)])
