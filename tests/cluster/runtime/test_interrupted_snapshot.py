"""State transfer of a snapshot resumes after interruptions, over real connections that break in mid-frame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from cluster import Group, Options
from cluster.runtime.api.options import RUNTIME_SETTINGS
from tests.cluster.runtime.loops import eventually, run
from tests.cluster.runtime.net.breaking_proxy import Proxy

if TYPE_CHECKING:
    from cluster.names import ProcessId, View

KEY = b"k" * 32
SETTINGS = msgspec.structs.replace(RUNTIME_SETTINGS, snapshot_every=10, supply_bytes=32 * 1024)
STATE_BYTES = 8 * 1024 * 1024


class Heavy:
    """A counter with a large state."""

    def __init__(self) -> None:
        self.count = 0

    def apply(self, _position: int, _origin: ProcessId, _body: bytes) -> object:
        self.count += 1
        return self.count

    def view_changed(self, _position: int, _view: View) -> None: ...

    def snapshot(self) -> bytes:
        return self.count.to_bytes(8, "big") * (STATE_BYTES // 8)

    def restore(self, state: bytes) -> None:
        self.count = int.from_bytes(state[:8], "big")


def options(name: str, *contacts: str, **more: tuple[str, ...]) -> Options:
    plain = Options(name=name, key=KEY, listen=("127.0.0.1:0",), contacts=contacts, settings=SETTINGS)
    return msgspec.structs.replace(plain, **more)


def test_a_snapshot_transfer_resumes_where_it_was_interrupted() -> None:
    async def story() -> None:
        async with await Group.found(options("a"), Heavy()) as a:
            await asyncio.gather(*(a.broadcast(b"x") for _ in range(100)))
            await eventually(lambda: a.driver.process.total_order.base > 0)  # joining now needs the snapshot
            proxy = Proxy(a.addresses[0])
            address = await proxy.start()
            a.driver.transport.addresses = (address,)
            proxy.cut_after = STATE_BYTES * 6 // 10
            try:
                machine = Heavy()
                b = await Group.join(options("b", address, advertise=("127.0.0.1:1",)), machine)
                async with b:
                    await eventually(lambda: proxy.cuts == 1)
                    proxy.cut_after = proxy.passed + STATE_BYTES * 2 // 10
                    await eventually(lambda: proxy.cuts == 2)
                    await b.primary_of(2)
                    await eventually(lambda: machine.count == 100)
                    assert await b.broadcast(b"y") == 101
                    # it was sent once, except for what was in flight at the cuts
                    assert proxy.passed < STATE_BYTES * 15 // 10
            finally:
                await proxy.close()

    run(story)
