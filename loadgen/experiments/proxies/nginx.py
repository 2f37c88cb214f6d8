"""nginx as a proxy: without classes, or with a rate limit for each class (limit_req), which queues requests."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from loadgen.experiments.proxies.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadgen.experiments.proxies.proxy import ProxyTask

_CONFIG = """
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


def installed() -> bool:
    return shutil.which("nginx") is not None


def alike(name: str, task: ProxyTask) -> Proxy:
    return _nginx(name, task, {})


def reserved(name: str, task: ProxyTask) -> Proxy:
    return _nginx(name, task, task.rates())


def _nginx(name: str, task: ProxyTask, rates: Mapping[str, float]) -> Proxy:
    zones, locations = [], []
    for at, (class_name, per_s) in enumerate(rates.items()):
        zones.append(f"limit_req_zone $server_port zone=z{at}:1m rate={per_s * 60:.0f}r/m;")
        burst = max(1, round(per_s * task.wait_s))
        locations.append(f"location {class_name}/ {{ limit_req zone=z{at} burst={burst}; proxy_pass http://slow; }}")

    def config(port: int) -> str:
        return _CONFIG.format(
            folder=task.folder,
            upstream=task.host,
            port=port,
            zones="\n    ".join(zones),
            locations="\n        ".join(locations),
        )

    return Proxy(name, task, config, lambda file: ["nginx", "-e", str(task.folder / "nginx.log"), "-c", str(file)])
