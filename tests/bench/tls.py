"""``./dev bench tls``: handshakes and encrypted responses, compared with nginx with the same certificate and key.

Both servers run at the same time on one core; the load runs on the other one and targets one server after the other,
round after round. ``openssl s_time`` makes handshakes (TLS 1.2, new and resumed sessions), wrk fetches 16 KiB with 64
connections that are kept alive. The load's core is the limit for rates, so the servers are judged by their processor
time: the figure of a server is the median over the rounds, the result is nginx's figure divided by qosweb's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import wrk
from tests.bench.contenders import CLIENT_CORE, SERVER_CORE, can_pin, free_port, process_on_core
from tests.bench.http import cpu_s
from tests.support.tls import write_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

_NGINX = """
worker_processes 1; daemon off; master_process off; pid {scratch}/nginx.pid; error_log {scratch}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    keepalive_requests 1000000000; access_log {scratch}/nginx-access.log;
    sendfile on; tcp_nopush on; tcp_nodelay on; open_file_cache max=1000; open_file_cache_valid 1s;
    client_body_temp_path {scratch}/t1; proxy_temp_path {scratch}/t2; fastcgi_temp_path {scratch}/t3;
    uwsgi_temp_path {scratch}/t4; scgi_temp_path {scratch}/t5;
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:10m; ssl_session_tickets on;
    server {{
        listen 127.0.0.1:{port} ssl backlog=2048; root {root};
        ssl_certificate {certificate}; ssl_certificate_key {key};
    }}
}}
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench tls", description=__doc__)
    parser.add_argument("--seconds", type=int, default=2, help="duration of a measurement")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    wrk.require()
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        raise SystemExit("bench: needs nginx and openssl (apt-get install nginx openssl)")
    measures: dict[str, Callable[[int], tuple[float, int]]] = {
        "new sessions": lambda port: _handshakes(port, "-new", options.seconds),
        "resumed sessions": lambda port: _handshakes(port, "-reuse", options.seconds),
        "16 KiB, keep-alive": lambda port: _load(port, options.seconds),
    }
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        servers = _start(stack, Path(folder))
        for name, measure in measures.items():
            found: dict[str, list[tuple[float, float]]] = {server: [] for server in servers}
            for _ in range(options.rounds):
                for server, (pid, port) in servers.items():
                    before_s = cpu_s(pid)
                    rate, count = measure(port)
                    found[server].append((rate, (cpu_s(pid) - before_s) / count * 1e6))
            medians = {
                server: tuple(statistics.median(one) for one in zip(*rounds, strict=True))
                for server, rounds in found.items()
            }
            print(f"\n{name}")
            for server, (rate, cpu_us) in medians.items():
                print(f"  {server:<7} {cpu_us:7.1f} us each  {rate:8.0f}/s")
            print(f"  nginx / qosweb {medians['nginx'][1] / medians['qosweb'][1]:.2f}", flush=True)
    return 0


def _handshakes(port: int, kind: str, seconds: int) -> tuple[float, int]:
    command = ["openssl", "s_time", "-connect", f"127.0.0.1:{port}", kind, "-tls1_2", "-time", str(seconds)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds + 60,
        check=False,
        preexec_fn=(lambda: os.sched_setaffinity(0, {CLIENT_CORE})) if can_pin() else None,
    )
    found = re.search(r"(\d+) connections in (\d+) real seconds", done.stdout)
    if found is None or not int(found[1]):
        raise SystemExit(f"bench: no handshakes:\n{done.stdout}{done.stderr}")
    return int(found[1]) / max(1, int(found[2])), int(found[1])


def _load(port: int, seconds: int) -> tuple[float, int]:
    load = wrk.load(f"https://127.0.0.1:{port}/16.bin", connections=64, seconds=seconds)
    return load.rate_per_s, load.requests


def _start(stack: contextlib.ExitStack, scratch: Path) -> dict[str, tuple[int, int]]:
    """The servers by name: process id and port."""
    root = scratch / "site"
    root.mkdir()
    (root / "16.bin").write_bytes(os.urandom(16 << 10))
    certificate, key = write_certificate(scratch / "tls")
    ports = {"qosweb": free_port(), "nginx": free_port()}
    config = scratch / "nginx.conf"
    config.write_text(_NGINX.format(scratch=scratch, port=ports["nginx"], root=root, certificate=certificate, key=key))
    serve = [sys.executable, "-m", "qosweb", "serve", "--listen", f"127.0.0.1:{ports['qosweb']}"]
    serve += ["--admin", "127.0.0.1:0", "--root", str(root), "--access-log", str(scratch / "qosweb.log")]
    serve += ["--tls-cert", str(certificate), "--tls-key", str(key), "--client-share", "100%"]
    commands = {"qosweb": serve, "nginx": ["nginx", "-e", str(scratch / "error.log"), "-c", str(config)]}
    return {
        name: (stack.enter_context(process_on_core(name, command, ports[name], SERVER_CORE)).pid, ports[name])
        for name, command in commands.items()
    }
