"""The submitter of an entry gets its result as soon as the entry is on disk; no frame waits for others to leave with.

Acknowledgements that no peer waits for may be delayed. Here the delay exceeds the test's time limit, there are no
heartbeats, and silence is not suspected: a result that waits for them never arrives.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster import Group, Options
from cluster.runtime.api.options import RUNTIME_SETTINGS, Bounds
from cluster.runtime.net import transport
from tests.cluster.runtime.loops import run

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 600.0
WITHIN_S = 20.0
SETTINGS = msgspec.structs.replace(RUNTIME_SETTINGS, heartbeat=100.0, suspect_min=300.0, suspect_max=600.0)


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("outstanding", [1, 400])  # 400: a batch leaves while another one is in flight
def test_a_result_does_not_wait_for_other_frames(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on_disk: bool, outstanding: int
) -> None:
    monkeypatch.setattr(transport, "PATIENCE_S", PATIENCE_S)

    def options(name: str, *contacts: str) -> Options:
        data = tmp_path / name if on_disk else None
        return Options(
            name=name, key=b"k" * 32, listen=("127.0.0.1:0",), contacts=contacts, data=data, settings=SETTINGS,
            bounds=Bounds(silence_s=600.0),
        )  # fmt: skip

    async def story() -> None:
        async with await Group.found(options("a")) as a, await Group.join(options("b", *a.addresses)) as b:
            async with asyncio.timeout(WITHIN_S):
                for member in (a, b):
                    await member.primary_of(2)
                for _ in range(3):
                    await asyncio.gather(*(b.broadcast(b"%d" % i) for i in range(outstanding)))

    run(story)
