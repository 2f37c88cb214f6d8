"""Other servers as processes, in front of a slow one: what a site would take instead. Only those that are installed."""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING

from loadgen.experiments.nodes import free_port
from loadgen.experiments.processes import CannotRun, end, last_line, start, wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from loadgen.experiments.nodes import Node

_START_S = 30.0
_NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn;
events {{ worker_connections 8192; }}
http {{
    access_log off; proxy_temp_path {folder}/proxy; client_body_temp_path {folder}/body;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    limit_req_status 503; proxy_read_timeout 120s; proxy_http_version 1.1; proxy_set_header Connection "";
    upstream slow {{ server {upstream}; keepalive 64; }}
    {zones}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        {locations}
        location / {{ proxy_pass http://slow; }}
    }}
}}
"""


class Nginx:
    """nginx as a proxy. ``rates`` are requests per second by class, if it is to hold each class to one."""

    def __init__(self, name: str, folder: Path, upstream: Node, rates: Mapping[str, float], wait_s: float) -> None:
        self.name = name
        self.log = upstream.log
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        zones, locations = [], []
        for at, (class_name, per_s) in enumerate(rates.items()):
            zones.append(f"limit_req_zone $server_port zone=z{at}:1m rate={per_s * 60:.0f}r/m;")
            burst = max(1, round(per_s * wait_s))
            locations.append(
                f"location {class_name}/ {{ limit_req zone=z{at} burst={burst}; proxy_pass http://slow; }}"
            )
        folder.mkdir(exist_ok=True)
        config = folder / f"{name}.conf"
        host = upstream.url.removeprefix("http://")
        config.write_text(
            _NGINX.format(
                folder=folder,
                upstream=host,
                port=port,
                zones="\n    ".join(zones),
                locations="\n        ".join(locations),
            ),
            "utf-8",
        )
        said = folder / f"{name}.txt"
        self._process = start(["nginx", "-e", str(folder / "nginx.log"), "-c", str(config)], said)

        def listens() -> bool:
            if self._process.poll() is not None:
                raise CannotRun(f"nginx ended by itself: {last_line(said)}")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            wait_for(lambda: listens() or None, "nginx to listen", _START_S)
        except BaseException:
            end(self._process)
            raise

    def __enter__(self) -> Nginx:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)


def missing() -> list[str]:
    """Servers that could be compared with, and are not here or not known to this experiment yet."""
    return [name for name in ("nginx", "haproxy", "apache2") if shutil.which(name) is None]
