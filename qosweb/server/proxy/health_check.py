"""Active health check: asks a server for its health path on a connection of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from qosweb.server.proxy.connect_error import describe

if TYPE_CHECKING:
    from qosweb.server.proxy.upstream_server import UpstreamServer

STATUS_LINE_MAX = 1024


async def check(server: UpstreamServer) -> str:
    """Why the server is not healthy; empty if it is."""
    settings = server.settings
    timeout_s = min(settings.health_interval, server.connect_s)
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(
                server.host, server.port, ssl=server.tls, server_hostname=server.server_name, limit=STATUS_LINE_MAX
            )
            host = settings.host or settings.authority
            fields = f"Host: {host}\r\nUser-Agent: qosweb\r\nConnection: close\r\n"
            writer.write(f"GET {settings.health_path} HTTP/1.1\r\n{fields}\r\n".encode())
            line = await reader.readuntil(b"\r\n")
    except TimeoutError:
        return f"no response within {timeout_s:g} s"
    except OSError as error:
        return describe(error).detail
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return "its response is not HTTP"
    finally:
        if writer is not None:
            writer.transport.abort()
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        return "its response is not HTTP"
    if int(words[1]) not in settings.health_status:
        return f"status {int(words[1])}"
    return ""
