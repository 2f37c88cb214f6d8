"""Background load of the demo: a few requests per second, to random pages of random nodes.

The load is open: requests do not wait for earlier responses. At most WAITING_MAX are in flight.
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


async def send_background_load(members: Callable[[], list[DemoNode]], chance: random.Random) -> None:
    """Send requests until cancelled. ``members`` returns the nodes that have not ended."""
    pages, weights = list(PAGES), list(PAGES.values())
    visits: set[asyncio.Task[None]] = set()
    limits = aiohttp.ClientTimeout(total=PATIENCE_S)
    connector = aiohttp.TCPConnector(limit=WAITING_MAX)
    async with aiohttp.ClientSession(timeout=limits, connector=connector) as session:
        try:
            while True:
                await asyncio.sleep(chance.expovariate(PER_S))
                running = members()
                if running and len(visits) < WAITING_MAX:
                    page = chance.choices(pages, weights)[0]
                    visit = asyncio.create_task(_request_page(session, chance.choice(running).url + page))
                    visits.add(visit)
                    visit.add_done_callback(visits.discard)
        finally:
            for visit in visits:
                visit.cancel()
            await asyncio.gather(*visits, return_exceptions=True)


async def _request_page(session: aiohttp.ClientSession, url: str) -> None:
    """Fetch a page and ignore the result: the nodes log it, and a node may be down on purpose."""
    try:
        async with session.get(url) as reply:
            while await reply.content.read(1 << 16):
                pass
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
        pass
