"""The HTTP servers under comparison, each as one process on one core, serving the same folder on a free port."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.nodes import environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER_CORE, CLIENT_CORE = 0, 1

_NGINX = """
worker_processes 1; daemon off; master_process off; pid {scratch}/nginx.pid; error_log {scratch}/nginx-error.log;
events {{ worker_connections 4096; }}
http {{
    types {{ text/html html; }}
    sendfile on; tcp_nopush on; tcp_nodelay on; keepalive_requests 1000000000;
    open_file_cache max=1000; open_file_cache_valid 1s;
    access_log {scratch}/nginx-access.log;
    client_body_temp_path {scratch}/t1; proxy_temp_path {scratch}/t2; fastcgi_temp_path {scratch}/t3;
    uwsgi_temp_path {scratch}/t4; scgi_temp_path {scratch}/t5;
    server {{ listen 127.0.0.1:{port} backlog=2048; root {root}; }}
}}
"""

_ADD_STATIC = """
import sys, uvloop
from aiohttp import web
uvloop.install()
app = web.Application()
app.router.add_static("/", sys.argv[1])
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None, access_log=None)
"""


@dataclass(frozen=True)
class Contender:
    name: str
    version: str
    pid: int
    port: int


def can_pin() -> bool:
    return len(os.sched_getaffinity(0)) >= 2


@contextlib.contextmanager
def running(name: str, root: Path, scratch: Path) -> Iterator[Contender]:
    """Starts the server ``name`` and waits until it responds."""
    port = free_port()
    if name == "nginx":
        config = scratch / "nginx.conf"
        config.write_text(_NGINX.format(scratch=scratch, root=root, port=port))
        command = ["nginx", "-e", str(scratch / "nginx-error.log"), "-c", str(config)]
    elif name == "add_static":
        command = [sys.executable, "-W", "ignore", "-c", _ADD_STATIC, str(root), str(port)]
    else:
        log = str(scratch / "qosweb-access.log")
        command = [sys.executable, "-m", "qosweb", "serve", "--root", str(root), "--listen", f"127.0.0.1:{port}"]
        command += [
            "--admin",
            "127.0.0.1:0",
            "--access-log",
            log,
            "--access-log-rotate",
            "64MB",
            "--access-log-keep",
            "1",
        ]
    with process_on_core(name, command, port, SERVER_CORE) as process:
        yield Contender(name, version_of(name), process.pid, port)


@contextlib.contextmanager
def process_on_core(name: str, command: list[str], port: int, core: int) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a server on one core and waits until it responds on ``port``."""
    process = subprocess.Popen(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=(lambda: os.sched_setaffinity(0, {core})) if can_pin() else None,
    )
    try:
        wait_until_it_answers(process, name, port)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def available() -> list[str]:
    return ["qosweb", "add_static", *(["nginx"] if shutil.which("nginx") else [])]


def version_of(name: str) -> str:
    from importlib.metadata import version

    if name == "nginx":
        return (
            subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True)
            .stderr.strip()
            .rpartition("/")[2]
        )
    return version("aiohttp" if name == "add_static" else "qosweb")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until_it_answers(process: subprocess.Popen[bytes], name: str, port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        if process.poll() is not None:
            raise SystemExit(f"bench: {name} ended with {process.returncode} before it served anything")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {name} did not answer within 20 s")
        time.sleep(0.05)
