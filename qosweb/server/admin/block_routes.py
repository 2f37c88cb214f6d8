"""``/blocks`` of the admin port: shows the block list, blocks and unblocks clients and networks."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from qosweb.blocklist.operations import BY_LEN_MAX, REASON_LEN_MAX, parse_path, parse_target, shown_path
from qosweb.server.cluster.block_service import CannotBlock, Undecided

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from qosweb.blocklist.operations import Network
    from qosweb.server.cluster.block_service import BlockService

SHOWN_MAX = 1000  # entries in one response, unless ?all is given


class ListChange(msgspec.Struct, forbid_unknown_fields=True):
    """The body of PUT and DELETE. `for_s`: seconds; without it the block has no time limit."""

    target: str
    path: str = ""
    for_s: float | None = None
    reason: str = ""
    by: str = ""
    force: bool = False


if TYPE_CHECKING:
    Change = Callable[[ListChange, Network, str, str], Awaitable[dict[str, object]]]

_decode = msgspec.json.Decoder(ListChange).decode


def routes_of(service: BlockService) -> list[web.RouteDef]:
    routes = BlockRoutes(service)
    return [web.get("/blocks", routes.get), web.put("/blocks", routes.put), web.delete("/blocks", routes.delete)]


def listed(service: BlockService, count_max: int) -> dict[str, object]:
    """The list as JSON, newest entries first."""
    return {
        "count": len(service.blocks),
        "nodes": service.members,
        "merging": service.is_merging,
        "blocks": [
            {
                "id": one.block.id,
                "target": one.block.network,
                "path": shown_path(one.block.path),
                "reason": one.block.reason,
                "by": one.block.by,
                "node": one.block.node,
                "since": one.block.at_s,
                "left_s": None if one.left_s == inf else round(one.left_s, 3),
            }
            for one in service.blocks.listed(count_max)
        ],
    }


class BlockRoutes:
    def __init__(self, service: BlockService) -> None:
        self._service = service

    async def get(self, request: web.Request) -> web.Response:
        count_max = len(self._service.blocks) if "all" in request.query else SHOWN_MAX
        return web.json_response(listed(self._service, count_max))

    async def put(self, request: web.Request) -> web.Response:
        async def block(wanted: ListChange, network: Network, path: str, by: str) -> dict[str, object]:
            made = await self._service.block(network, path, wanted.for_s, wanted.reason, by, force=wanted.force)
            return {"id": made.id}

        return await self._change(request, block)

    async def delete(self, request: web.Request) -> web.Response:
        async def unblock(_wanted: ListChange, network: Network, path: str, by: str) -> dict[str, object]:
            return {"removed": await self._service.unblock(network, path, by)}

        return await self._change(request, unblock)

    async def _change(self, request: web.Request, change: Change) -> web.Response:
        try:
            wanted = _decode(await request.read())
            network, path = parse_target(wanted.target), parse_path(wanted.path)
            if len(wanted.reason) > REASON_LEN_MAX or len(wanted.by) > BY_LEN_MAX:
                raise ValueError(f"a reason has at most {REASON_LEN_MAX} characters, a name {BY_LEN_MAX}")
            if not (wanted.reason + wanted.by).isprintable():
                raise ValueError("a reason has no control characters")
            if wanted.for_s is not None and not 0 < wanted.for_s < inf:
                raise ValueError("the time limit must be more than 0")
        except (msgspec.MsgspecError, ValueError) as error:
            return web.Response(status=400, text=f"{error}\n")
        try:
            done = await change(wanted, network, path, wanted.by or request.remote or "")
        except CannotBlock as error:
            return web.Response(status=409, text=f"{error}\n")
        except Undecided as error:
            return web.Response(status=504, text=f"not in force yet, it may still take effect: {error}\n")
        return web.json_response(
            {**done, "target": str(network), "path": shown_path(path), "nodes": self._service.members}
        )
