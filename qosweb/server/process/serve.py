"""Server process of ``qosweb serve``: starts a node and its admin port, handles signals, shuts down."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from qosweb.errors import UsageError
from qosweb.server.admin.admin import LOGGER, Admin, Token
from qosweb.server.connection.connections import LINGERING_MAX
from qosweb.server.process import gc_tuning
from qosweb.server.process.console import install_log_handler, log_message
from qosweb.server.process.node import Node
from qosweb.server.process.startup import address_of, bind
from qosweb.server.process.systemd import Notifier
from qosweb.units import format_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.server.connection.connections import Connections
    from qosweb.settings import ServeSettings

FILES_BESIDE_CONNECTIONS = 64  # connections of the admin port among them
UPSTREAMS_SHOWN_MAX = 8  # in the message at the start


def serve(
    settings: ServeSettings, on_ready: Callable[[str, str | None], None] | None = None, *, ends_on_hangup: bool = False
) -> int:
    """Run a node until a signal ends it. ``on_ready`` gets the public and the admin URL."""
    if settings.access_log == "-" and sys.stdout is None:  # descriptor 1 would soon be reused
        raise UsageError("--access-log -: standard output is closed; name a file, or use --access-log none")
    for number in (signal.SIGUSR1, *(() if ends_on_hangup else (signal.SIGHUP,))):
        signal.signal(number, signal.SIG_IGN)  # until the node has read what they renew: by default they end a process
    install_log_handler("cluster", "group")
    install_log_handler(LOGGER, "admin port")
    return uvloop.run(_serve(settings, on_ready or _announce(settings), ends_on_hangup=ends_on_hangup))


async def _serve(settings: ServeSettings, on_ready: Callable[[str, str | None], None], *, ends_on_hangup: bool) -> int:
    loop = asyncio.get_running_loop()
    notifier = Notifier()
    stopping: asyncio.Queue[signal.Signals] = asyncio.Queue()
    async with contextlib.AsyncExitStack() as cleanup:
        token = Token(settings.admin_token_file)
        node = Node(settings)
        cleanup.push_async_callback(node.close)
        admin_url = None
        if settings.admin is not None:
            admin = Admin(node, token, lambda: stopping.put_nowait(signal.SIGTERM))
            listener = bind(settings.admin, "--admin")
            admin_url = f"http://{address_of(listener)}/"
            await admin.start(listener)
            cleanup.push_async_callback(admin.close)
        listening = await node.start()
        _allow_files(settings, node.connections)

        loop.add_signal_handler(signal.SIGHUP, _reload, node, token, notifier)
        for number in (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if ends_on_hangup else [])):
            loop.add_signal_handler(number, stopping.put_nowait, number)
        loop.add_signal_handler(signal.SIGUSR1, node.reopen_logs)

        gc_tuning.tune_for_serving()
        on_ready(listening.url, admin_url)
        notifier.ready(f"serving {_content(settings)} on {listening.url}")
        watchdog = asyncio.create_task(_watchdog(notifier))
        cleanup.callback(watchdog.cancel)

        number = await stopping.get()
        notifier.stopping()
        if number is signal.SIGTERM:
            await _drain_until(node, settings.grace, stopping)
            await node.leave()
    return 0


async def _drain_until(node: Node, grace_s: float, stopping: asyncio.Queue[signal.Signals]) -> None:
    """Drain the node. Another signal ends the drain at once."""
    log_message(f"draining for up to {grace_s:g} s")
    drain = asyncio.create_task(node.drain(grace_s))
    hurry = asyncio.create_task(stopping.get())
    await asyncio.wait({drain, hurry}, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if not drain.done():
        drain.cancel()
    elif not drain.result():
        log_message(f"connections still busy after {grace_s:g} s: {len(node.connections)}")


def _reload(node: Node, token: Token, notifier: Notifier) -> None:
    notifier.reloading()
    try:
        new_token = token.read_again()
        policy = node.reload()
        token.value = new_token
        what = "root, pages, error pages, certificate, admin token"
        log_message(f"reloaded: {what}; policy: {policy}; other settings need a restart")
    except UsageError as error:
        log_message(f"not reloaded, nothing has changed: {error}")
    notifier.ready("serving")


async def _watchdog(notifier: Notifier) -> None:
    while notifier.watchdog_s:
        notifier.alive()
        await asyncio.sleep(notifier.watchdog_s / 3)


def _allow_files(settings: ServeSettings, connections: Connections) -> None:
    """Raise the limit of open files to what the settings need; if that is not possible, lower the connection limit.

    Otherwise connections would use up the descriptors of the admin port and of the pages.
    """
    needed = settings.max_connections + LINGERING_MAX + 2 * settings.max_open_files + FILES_BESIDE_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed or soft == resource.RLIM_INFINITY:
        return
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    except (ValueError, OSError):  # some systems have a lower limit than they report
        allowed = soft
    if allowed < needed:
        connections.lower_max((allowed - FILES_BESIDE_CONNECTIONS) // 2)
        log_message(
            f"the system allows {allowed} open files, but --max-connections and --max-open-files may need {needed}: "
            f"--max-connections is lowered to {connections.total_max}; raise the system's limit (ulimit -Hn, "
            "LimitNOFILE=) or lower both options"
        )


def _content(settings: ServeSettings) -> str:
    """The content that the node serves, in words: its folder or the releases of its site, and the servers behind it."""
    parts = ["releases of the site"] if settings.site else [str(settings.root)] if settings.root is not None else []
    parts += [
        one.url if one.url.endswith(f"//{one.name}") else f"{one.name} ({one.url})"
        for one in settings.upstream[:UPSTREAMS_SHOWN_MAX]
    ]
    if len(settings.upstream) > UPSTREAMS_SHOWN_MAX:
        parts.append(f"{len(settings.upstream) - UPSTREAMS_SHOWN_MAX} more servers")
    return ", ".join(parts)


def _capacity(settings: ServeSettings) -> str:
    if settings.capacity is not None:
        return f", capacity {format_size(settings.capacity)}/s"
    return "" if settings.spec is None and not settings.is_member else ", capacity measured"


def _announce(settings: ServeSettings) -> Callable[[str, str | None], None]:
    def announce(url: str, admin_url: str | None) -> None:
        admin = f", admin on {admin_url}" if admin_url else ""
        log_message(f"serving {_content(settings)} on {url}{admin}{_capacity(settings)}")

    return announce
