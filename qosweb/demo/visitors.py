"""The gentle load of the demo: visitors of the shop, a few each second, at all of its nodes.

They come whether or not the ones before them were answered. No more than WAITING_MAX are on their way at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from qosweb.demo.demo_nodes import DemoNode

PER_S = 12.0
WAITING_MAX = 64
PATIENCE_S = 5.0
PAGES = {
    "/": 4,
    "/style.css": 2,
    "/shop/": 6,
    "/shop/compass.html": 3,
    "/images/harbour.svg": 5,
    "/free/": 5,
    "/free/hollin-preview.jpg": 2,
    "/paid/full/": 4,
    "/paid/full/soundings.png": 2,
    "/paid/full/hollin-sheet.jpg": 1,
    "/cart/": 1,
    "/checkout/": 1,
    "/about/": 1,
}


async def visit_for_ever(members: Callable[[], list[DemoNode]], chance: random.Random) -> None:
    """``members`` are those that have not ended."""
    pages, weights = list(PAGES), list(PAGES.values())
    visits: set[asyncio.Task[None]] = set()
    limits = aiohttp.ClientTimeout(total=PATIENCE_S)
    connector = aiohttp.TCPConnector(limit=WAITING_MAX)
    async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:
        try:
            while True:
                await asyncio.sleep(chance.expovariate(PER_S))
                open_to_all = members()
                if open_to_all and len(visits) < WAITING_MAX:
                    page = chance.choices(pages, weights)[0]
                    visit = asyncio.create_task(_visit(session, chance.choice(open_to_all).url + page))
                    visits.add(visit)
                    visit.add_done_callback(visits.discard)
        finally:
            for visit in visits:
                visit.cancel()
            await asyncio.gather(*visits, return_exceptions=True)


async def _visit(session: aiohttp.ClientSession, url: str) -> None:
    """What becomes of it, the nodes know; a node may also be gone, which is what the demo is for."""
    try:
        async with session.get(url) as reply:
            while await reply.content.read(1 << 16):
                pass
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        pass
