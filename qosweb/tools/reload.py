"""``qosweb reload SPEC`` and ``qosweb drain``: change the policy of a cluster, and stop a node gracefully.

``reload`` first checks the specification locally, as ``qosweb check`` does. The node checks it again. Then the whole
cluster switches to the new policy at one position of its total order.
Neighbours: `admin_client`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from qosweb.tools.admin_client import AdminClient, RequestRefused
from qosweb.units import pluralize
from qosweb.webqos.loader import compile_file
from qosweb.webqos.syntax.diagnostics import as_json as diagnostic_as_json

if TYPE_CHECKING:
    import argparse


def reload(arguments: argparse.Namespace) -> int:
    """Return 0 if the policy is in force, 1 if it has errors. Raises UsageError if the node is away or refuses."""
    client = AdminClient(arguments.admin, arguments.token_file)
    policy = compile_file(arguments.file)
    found = policy.diagnostics
    errors = sum(one.severity == "error" for one in found)
    if arguments.json and policy.has_errors:
        listed = [diagnostic_as_json(policy.source, one) for one in found]
        print(json.dumps({"errors": errors, "warnings": len(found) - errors, "diagnostics": listed}, indent=2))
    elif not arguments.json:
        sys.stdout.write(policy.render_diagnostics())
    if policy.has_errors:
        if not arguments.json:
            print(f"{pluralize(errors, 'error')}, {pluralize(len(found) - errors, 'warning')}; nothing was changed")
        return 1
    try:
        answer = asyncio.run(_put(client, policy.source.text))
    except RequestRefused as refusal:
        if refusal.status == 422:  # the node runs another version of the language
            sys.stderr.write(refusal.text)
            raise RequestRefused(
                f"{client.address}: the node found errors where this command found none", 422, ""
            ) from None
        raise
    if arguments.json:
        print(json.dumps(answer, indent=2))
        return 0
    index = answer.get("index")
    where = "at this node" if index is None else f"in the whole cluster, from position {index} of its order on"
    print(f"policy {answer.get('policy')} is in force {where}")
    return 0


async def _put(client: AdminClient, text: str) -> dict[str, Any]:
    return await client.put_policy(text)


def drain(arguments: argparse.Namespace) -> int:
    """Make a node finish the requests in service and exit."""
    client = AdminClient(arguments.admin, arguments.token_file)
    asyncio.run(_drain(client))
    if arguments.json:
        print(json.dumps({"draining": True}))
    else:
        print(f"the node at {client.address} accepts no new connections, finishes the requests in service, and exits")
    return 0


async def _drain(client: AdminClient) -> None:
    await client.drain()
