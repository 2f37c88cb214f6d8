"""`tests.cluster.runtime.loops`: a scenario that fails must not stand still."""

from __future__ import annotations

import asyncio

import pytest

from tests.cluster.runtime.loops import run


def test_a_scenario_that_fails_with_open_sockets_ends() -> None:
    async def story() -> None:
        await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        raise LookupError

    with pytest.warns(ResourceWarning, match="unclosed"), pytest.raises(LookupError):
        run(story)
