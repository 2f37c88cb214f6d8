"""``qosweb releases`` and ``qosweb rollback``: the releases of the site.

Neighbours: `admin_client`, `publish`. Server: `qosweb.server.admin.release_routes`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from qosweb.terminal_text import escape_controls
from qosweb.tools.admin_client import AdminClient, RequestRefused
from qosweb.tools.blocks import operator_name
from qosweb.units import describe_size, pluralize

if TYPE_CHECKING:
    import argparse


def releases(arguments: argparse.Namespace) -> int:
    """List the releases, newest first."""
    found = asyncio.run(_ask(arguments))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    if not found["releases"]:
        print("no release yet; publish one: qosweb publish DIR")
    for one in found["releases"]:
        mark = "*" if one["number"] == found["current"] else " "
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["at"]))
        size = f"{pluralize(one['files'], 'file')}, {describe_size(one['bytes'])}"
        text = f"{mark} {one['number']:>4}  {one['release'][:16]}  {when}  {size}  by {one['by']}  {one['message']}"
        print(escape_controls(text.rstrip()))
    for one in found["proposed"]:
        held = ", ".join(one["held_by"]) or "no node"
        print(escape_controls(f"  next  {one['release'][:16]}  held by {held}"))
    current = next((one for one in found["releases"] if one["number"] == found["current"]), None)
    if current and found["served"] != found["current"]:
        print(f"this node still serves release {found['served']}: it lacks the list of files of {current['number']}")
    elif current and not current["complete"]:
        print(f"this node lacks files of release {current['number']}: it gets them when they are requested")
    return 0


def rollback(arguments: argparse.Namespace) -> int:
    """Return 0 if the earlier release is current, 1 if the cluster refused."""
    try:
        done = asyncio.run(_roll_back(arguments))
    except RequestRefused as refusal:
        if refusal.status != 409:
            raise
        print(f"qosweb: not rolled back: {escape_controls(refusal.text.strip())}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(done, indent=2))
    else:
        nodes = ", ".join(done["nodes"]) or "this node"
        print(escape_controls(f"release {done['number']} is current at {nodes}: {done['message']}"))
    return 0


async def _ask(arguments: argparse.Namespace) -> dict[str, Any]:
    client = AdminClient(arguments.admin, arguments.token_file)
    return await client.releases()


async def _roll_back(arguments: argparse.Namespace) -> dict[str, Any]:
    client = AdminClient(arguments.admin, arguments.token_file)
    return await client.roll_back(arguments.release, operator_name())
