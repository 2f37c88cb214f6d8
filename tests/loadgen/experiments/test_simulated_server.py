"""The simulated application server: workers, their queue, and the records that the experiments judge."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.server_process import ServerProcess
from tests.support.server_records import ServerRecords
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def ask(server: ServerProcess, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        assert response.status == 500 or len(response.read()) == 13
        return response.status
    finally:
        connection.close()


def test_requests_share_the_workers_in_order_of_arrival(tmp_path: Path) -> None:
    path = tmp_path / "records"
    with ServerProcess(2, ["20", "b=60"], path) as server, ThreadPoolExecutor(12) as pool:
        assert set(pool.map(lambda at: ask(server, "/a/x" if at % 2 else "/b/x"), range(12))) == {200}
        server.tell("workers 1")
        assert ask(server, "/a") == 200
        server.tell("fail 1")
        wait_for(lambda: ask(server, "/a") == 500, "failures")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row[2] for row in rows if row[0] == "workers"] == [2, 1]
    served = sorted((row for row in rows if row[0] in "ab"), key=lambda row: row[2])
    assert [row[1] for row in served] == sorted(row[1] for row in served)
    for row in served:
        assert row[3] - row[2] >= (0.0199 if row[0] == "a" else 0.0599)
        assert sum(one[2] <= row[2] < one[3] for one in served) <= 2
    assert sum(row[2] - row[1] > 0.015 for row in served) >= 8  # two of them started at once


def test_means_of_an_interval(tmp_path: Path) -> None:
    """Two workers: one busy for 10 s with A, the other for 4 s with B, for which B waited for 2 s."""
    path, began = tmp_path / "records", float(int(time.time()))
    rows = [
        ["workers", began, 2],
        ["a", began, began, began + 10],
        ["b", began + 1, began + 3, began + 7],
        ["workers", began + 10, 1],
        ["a", began + 12, began + 12, began + 16],
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    records = ServerRecords([path])
    means = records.means(began, began + 10)
    assert means.use == pytest.approx(0.7)
    assert means.queue == pytest.approx(0.2)
    assert means.slots == pytest.approx(1.4)
    assert means.shares == pytest.approx({"a": 10 / 14, "b": 4 / 14})
    assert records.means(began + 12, began + 16).use == pytest.approx(1.0)
    assert records.settled_s(began + 10, began + 16, 0.95, 2.0) == pytest.approx(2.0, abs=0.11)
    assert records.settled_s(began, began + 10, 0.95, 2.0) is None
