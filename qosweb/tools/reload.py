"""``qosweb reload SPEC`` and ``qosweb drain``: tell a running node what to do.

A specification is checked here first, as ``qosweb check`` does it, so that a mistake is seen where it was made. The
node checks it again, and then the whole cluster changes at one place in its order.
Neighbours: `admin_client`, `check`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from qosweb.tools.admin_client import AdminClient, RequestRefused
from qosweb.webqos.check.check import check_source
from qosweb.webqos.loader import count, read_source
from qosweb.webqos.syntax.diagnostics import as_json as diagnostic_as_json
from qosweb.webqos.syntax.diagnostics import has_errors, in_order, render

if TYPE_CHECKING:
    import argparse


def reload(arguments: argparse.Namespace) -> int:
    """0: in force; 1: the specification has errors. UsageError (exit code 2): there is no such node, or it refuses."""
    client = AdminClient(arguments.admin, arguments.token_file)
    source, unreadable = read_source(arguments.file)
    found = in_order([*unreadable, *([] if unreadable else check_source(source))])
    errors = sum(one.severity == "error" for one in found)
    if arguments.json and has_errors(found):
        listed = [diagnostic_as_json(source, one) for one in found]
        print(json.dumps({"errors": errors, "warnings": len(found) - errors, "diagnostics": listed}, indent=2))
    elif not arguments.json:
        sys.stdout.write(render(source, found))
    if has_errors(found):
        if not arguments.json:
            print(f"{count(errors, 'error')}, {count(len(found) - errors, 'warning')}; nothing was changed")
        return 1
    try:
        answer = asyncio.run(_put(client, source.text))
    except RequestRefused as refusal:
        if refusal.status == 422:  # it knows another version of the language
            sys.stderr.write(refusal.text)
            raise RequestRefused(
                f"{client.address}: the node found errors where this command found none", 422, ""
            ) from None
        raise
    if arguments.json:
        print(json.dumps(answer, indent=2))
        return 0
    index = answer.get("index")
    where = "at this node" if index is None else f"in the whole cluster, from place {index} of its order on"
    print(f"policy {answer.get('policy')} is in force {where}")
    return 0


async def _put(client: AdminClient, text: str) -> dict[str, Any]:
    async with client:
        return await client.put_policy(text)


def drain(arguments: argparse.Namespace) -> int:
    client = AdminClient(arguments.admin, arguments.token_file)
    asyncio.run(_drain(client))
    if arguments.json:
        print(json.dumps({"draining": True}))
    else:
        print(f"the node at {client.address} takes no new connections, finishes what is in service, and ends")
    return 0


async def _drain(client: AdminClient) -> None:
    async with client:
        await client.drain()
