"""Apache with mod_qos: limits the concurrent requests of each class (QS_LocRequestLimit) and denies the excess.

The limit is the number of requests that the slow server answers in the time that a request may wait. mod_qos has no
queue.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.experiments.proxies.proxy import Proxy

if TYPE_CHECKING:
    from loadgen.experiments.proxies.proxy import ProxyTask

_PROGRAMS = ("apache2", "httpd")
_MODULES = (Path("/usr/lib/apache2/modules"), Path("/usr/lib64/httpd/modules"), Path("/usr/lib/httpd/modules"))
_LIBRARIES = (Path("/usr/lib"), Path("/usr/lib64"), Path("/lib"))
_REGULAR_EXPRESSIONS = ("libpcre.so.3", "*/libpcre.so.3")  # some builds of mod_qos need it and do not say so
_LOADED = ("mpm_event", "authz_core", "proxy", "proxy_http", "qos")
_USERS = ("www-data", "apache", "nobody")
_CONFIG = """
ServerRoot {folder}
DefaultRuntimeDir {folder}
PidFile {folder}/apache.pid
ErrorLog {folder}/apache.log
ServerName localhost
Listen 127.0.0.1:{port}
ListenBacklog 4096
Mutex pthread
{user}
{modules}
StartServers 1
ServerLimit 1
ThreadLimit 256
ThreadsPerChild 256
MaxRequestWorkers 256
AsyncRequestWorkerFactor 16
MaxKeepAliveRequests 0
KeepAliveTimeout 60
ProxyTimeout 120
ProxyPass / http://{upstream}/
QS_ErrorResponseCode 503
{places}
"""


def installed() -> bool:
    return _program() is not None and _modules() is not None


def placed(name: str, task: ProxyTask) -> Proxy:
    modules, program = _modules(), _program()
    assert modules is not None, "asked for where it is not installed"
    assert program is not None, "asked for where it is not installed"
    places = task.places(round(task.capacity_per_s * task.wait_s))

    def config(port: int) -> str:
        return _CONFIG.format(
            folder=task.folder,
            upstream=task.host,
            port=port,
            user=f"User {_user()}" if os.geteuid() == 0 else "",
            modules="\n".join(
                [*_files(), *(f"LoadModule {one}_module {modules / f'mod_{one}.so'}" for one in _LOADED)]
            ),
            places="\n".join(f"QS_LocRequestLimit {class_name} {count}" for class_name, count in places.items()),
        )

    return Proxy(name, task, config, lambda file: [program, "-D", "FOREGROUND", "-f", str(file)])


def _program() -> str | None:
    return next((name for name in _PROGRAMS if shutil.which(name)), None)


def _modules() -> Path | None:
    return next((folder for folder in _MODULES if (folder / "mod_qos.so").is_file()), None)


def _files() -> list[str]:
    found = (file for folder in _LIBRARIES for form in _REGULAR_EXPRESSIONS for file in sorted(folder.glob(form)))
    return [f"LoadFile {file}" for file in list(found)[:1]]


def _user() -> str:
    """An unprivileged user: Apache does not serve as root."""
    import pwd  # not on every platform

    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in _USERS if name in known), _USERS[-1])
