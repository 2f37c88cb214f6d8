"""``./dev bench proxy``: qosweb as a reverse proxy, compared with nginx and HAProxy.

All proxies run at the same time on one core, in front of the same nginx, which shares the other core with the load
(wrk, 64 connections). wrk targets one proxy after the other, round after round. All keep connections alive on both
sides and write access logs; qosweb has a specification in force, and no limit for one client, as all load comes from
one address. Each measurement begins after a second of the same load: qosweb begins with a low limit for the server
behind it, and requests wait while it finds the right one. The load's core is the limit for rates, so proxies are judged
by their processor time per request: the figure of a proxy is the median over the rounds, the result is the better
peer's figure divided by qosweb's. Heads repeat, or all differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.bench import wrk
from tests.bench.contenders import CLIENT_CORE, SERVER_CORE, free_port, process_on_core
from tests.bench.http import cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator

_NGINX = """
worker_processes 1; daemon off; master_process off; pid {scratch}/nginx.pid; error_log {scratch}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    keepalive_requests 1000000000; access_log {log};
    client_body_temp_path {scratch}/t1; proxy_temp_path {scratch}/t2; fastcgi_temp_path {scratch}/t3;
    uwsgi_temp_path {scratch}/t4; scgi_temp_path {scratch}/t5;
    {servers}
}}
"""
_ORIGIN = """
    open_file_cache max=1000; open_file_cache_valid 1s;
    server {{ listen 127.0.0.1:{port} backlog=2048; root {root}; location /post {{ return 200 ok; }} }}
"""
_PROXY = """
    upstream u {{ server 127.0.0.1:{origin}; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen 127.0.0.1:{port} backlog=2048;
        location / {{
            proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection "";
            proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
"""
_HAPROXY = """
global
  nbthread 1
  log {scratch}/log.sock local0
defaults
  mode http
  log global
  option httplog
  option forwardfor
  http-reuse always
  timeout client 30s
  timeout server 30s
  timeout connect 5s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  server s 127.0.0.1:{origin} pool-max-conn 128
"""
_POST = 'wrk.method = "POST"\nwrk.body = string.rep("x", 4096)\n'
SPEC = "</1.bin>.available = always\n</api/*>.server_resource > 10%\n"
P99_GOAL = 2.0


class Case(NamedTuple):
    path: str
    script: str | None
    goal: float  # of the better peer's processor time per request, divided by qosweb's


CASES = {
    "1 KiB, heads repeat": Case("/1.bin", None, 0.6),
    "16 KiB, heads repeat": Case("/16.bin", None, 0.6),
    "1 KiB, heads differ": Case("/1.bin", wrk.DISTINCT_HEADS, 0.5),
    "16 KiB, heads differ": Case("/16.bin", wrk.DISTINCT_HEADS, 0.5),
    "POST of 4 KiB": Case("/post", _POST, 0.5),
}


class Proxy(NamedTuple):
    name: str
    pid: int
    port: int


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench proxy", description=__doc__)
    parser.add_argument("--seconds", type=int, default=3, help="duration of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("bench-results/proxy.json"))
    options = parser.parse_args(arguments)
    wrk.require()
    if shutil.which("nginx") is None:
        raise SystemExit("bench: needs nginx as the server behind the proxies (apt-get install nginx)")
    results: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        scratch = Path(folder)
        proxies = _start_all(stack, scratch)
        for name, case in CASES.items():
            script = None
            if case.script is not None:
                script = scratch / "script.lua"
                script.write_text(case.script)
            results[name] = {proxy.name: [] for proxy in proxies}
            for _ in range(options.rounds):
                for proxy in proxies:
                    results[name][proxy.name].append(_measure(proxy, case, script, options))
            _report(name, case, results[name])
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rate, p99 ms, cpu us": results}, indent=2) + "\n")
    print(f"\nwritten to {options.out}")
    return 0


def _measure(proxy: Proxy, case: Case, script: Path | None, options: argparse.Namespace) -> tuple[float, float, float]:
    url = f"http://127.0.0.1:{proxy.port}{case.path}"
    wrk.load(url, connections=options.connections, seconds=1, script=script)  # warm
    before_s = cpu_s(proxy.pid)
    load = wrk.load(url, connections=options.connections, seconds=options.seconds, script=script)
    return load.rate_per_s, load.p99_ms, (cpu_s(proxy.pid) - before_s) / load.requests * 1e6


def _report(name: str, case: Case, found: dict[str, list[tuple[float, float, float]]]) -> None:
    medians = {proxy: [statistics.median(one) for one in zip(*rounds, strict=True)] for proxy, rounds in found.items()}
    print(f"\n{name}")
    for proxy, (rate, p99_ms, cpu_us) in medians.items():
        print(f"  {proxy:<8} {cpu_us:6.1f} us each  {rate:8.0f}/s  p99 {p99_ms:7.2f} ms", flush=True)
    peers = [cpu_us for proxy, (_, _, cpu_us) in medians.items() if proxy != "qosweb"]
    ratio = min(peers) / medians["qosweb"][2]
    print(f"  better peer / qosweb {ratio:.2f}  goal >= {case.goal}  {'met' if ratio >= case.goal else 'MISSED'}")
    p99 = medians["qosweb"][1] / min(p99_ms for proxy, (_, p99_ms, _) in medians.items() if proxy != "qosweb")
    print(f"  p99, qosweb / better peer {p99:.2f}  goal <= {P99_GOAL:g}  {'met' if p99 <= P99_GOAL else 'MISSED'}")


def _start_all(stack: contextlib.ExitStack, scratch: Path) -> list[Proxy]:
    root = scratch / "site"
    root.mkdir()
    for kib in (1, 16):
        (root / f"{kib}.bin").write_bytes(os.urandom(kib << 10))
    origin = stack.enter_context(_nginx("origin", scratch, _ORIGIN, CLIENT_CORE, root=root, has_log=False))
    proxies = [
        stack.enter_context(_qosweb(scratch, origin.port)),
        stack.enter_context(_nginx("nginx", scratch, _PROXY, SERVER_CORE, origin=origin.port)),
    ]
    if shutil.which("haproxy") is not None:
        port = free_port()
        config = scratch / "haproxy.cfg"
        config.write_text(_HAPROXY.format(scratch=scratch, port=port, origin=origin.port))
        proxies.append(stack.enter_context(_running("haproxy", ["haproxy", "-f", str(config)], port, SERVER_CORE)))
    return proxies


@contextlib.contextmanager
def _nginx(
    name: str, scratch: Path, servers: str, core: int, *, has_log: bool = True, **values: object
) -> Iterator[Proxy]:
    port, folder = free_port(), scratch / name
    folder.mkdir()
    log = str(folder / "access.log") if has_log else "off"
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(scratch=folder, log=log, servers=servers.format(port=port, **values)))
    command = ["nginx", "-e", str(folder / "error.log"), "-c", str(config)]
    with _running(name, command, port, core) as proxy:
        yield proxy


@contextlib.contextmanager
def _qosweb(scratch: Path, origin: int) -> Iterator[Proxy]:
    port, spec = free_port(), scratch / "spec.webqos"
    spec.write_text(SPEC)
    command = [sys.executable, "-m", "qosweb", "serve", "--listen", f"127.0.0.1:{port}", "--admin", "127.0.0.1:0"]
    command += ["--upstream", f"http://127.0.0.1:{origin}", "--spec", str(spec)]
    command += ["--access-log", str(scratch / "qosweb.log"), "--client-share", "100%"]
    with _running("qosweb", command, port, SERVER_CORE) as proxy:
        yield proxy


@contextlib.contextmanager
def _running(name: str, command: list[str], port: int, core: int) -> Iterator[Proxy]:
    with process_on_core(name, command, port, core) as process:
        yield Proxy(name, process.pid, port)
