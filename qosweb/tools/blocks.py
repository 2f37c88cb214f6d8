"""``qosweb block``, ``unblock`` and ``blocks``: the emergency block list of a cluster.

Neighbours: `admin_client`. Server: `qosweb.server.admin.block_routes`.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
from typing import TYPE_CHECKING, Any

from qosweb.blocklist.operations import BY_LEN_MAX, parse_path, parse_target
from qosweb.errors import UsageError
from qosweb.terminal_text import escape_controls
from qosweb.tools.admin_client import AdminClient
from qosweb.units import parse_duration_s, pluralize

if TYPE_CHECKING:
    import argparse


def block(arguments: argparse.Namespace) -> int:
    """Block a client or network. Raises UsageError if the node is away or refuses."""
    change: dict[str, object] = {**_target(arguments), "reason": arguments.reason, "force": arguments.force}
    if arguments.time is not None:
        change["for_s"] = _time(arguments.time)
    done = asyncio.run(_change(arguments, "PUT", change))
    if arguments.json:
        print(json.dumps(done, indent=2))
    else:
        time = f" for {arguments.time}" if arguments.time is not None else ""
        print(f"{_named(done)} is blocked{time} at {_nodes(done)}; reference {done.get('id')}")
    return 0


def unblock(arguments: argparse.Namespace) -> int:
    """End the blocks of a client or network. Returns 1 if there were none."""
    done = asyncio.run(_change(arguments, "DELETE", _target(arguments)))
    removed = int(done.get("removed", 0))
    if arguments.json:
        print(json.dumps(done, indent=2))
    elif removed:
        print(f"{_named(done)} is no longer blocked at {_nodes(done)} ({pluralize(removed, 'block')})")
    else:
        hint = "" if done["path"] else " (a block of a path needs --path)"
        print(f"{_named(done)} was not blocked{hint}; see what is: qosweb blocks")
    return 0 if removed else 1


def blocks(arguments: argparse.Namespace) -> int:
    """List the blocks in force."""
    client = AdminClient(arguments.admin, arguments.token_file)
    found = asyncio.run(_list(client))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    listed = found.get("blocks", [])
    if not listed:
        print(f"nothing is blocked at {_nodes(found)}")
    for one in listed:
        left = "no time limit" if one["left_s"] is None else f"{_shown_time(one['left_s'])} left"
        reason = f": {one['reason']}" if one["reason"] else ""
        text = f"{_named(one)}  {left}, by {one['by']} at {one['node']}{reason}  ({one['id']})"
        print(escape_controls(text))
    if found.get("merging"):
        print("the lists of several nodes are being merged")
    return 0


def _target(arguments: argparse.Namespace) -> dict[str, object]:
    try:
        target = str(parse_target(arguments.target))
        parse_path(arguments.path)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return {"target": target, "path": arguments.path, "by": operator_name()}


def operator_name() -> str:
    """The user who runs the command, for logs."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[:BY_LEN_MAX]


def _time(text: str) -> float:
    try:
        seconds = parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None
    if seconds <= 0:
        raise UsageError(f"--for {text}: must be more than 0")
    return seconds


def _named(done: dict[str, Any]) -> str:
    return f"{done['target']} {done['path']}" if done["path"] else str(done["target"])


def _nodes(done: dict[str, Any]) -> str:
    return ", ".join(done.get("nodes", [])) or "this node"


def _shown_time(seconds: float) -> str:
    for unit, per in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * per:
            return f"{seconds / per:.0f} {unit}"
    return f"{seconds:.0f} s"


async def _change(arguments: argparse.Namespace, method: str, change: dict[str, object]) -> dict[str, Any]:
    client = AdminClient(arguments.admin, arguments.token_file)
    return await client.change_blocks(method, change)


async def _list(client: AdminClient) -> dict[str, Any]:
    return await client.blocks()
