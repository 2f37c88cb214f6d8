"""Visitors of a site with releases: they navigate, fetch the parts of each page, and report what no visitor may see.

Part of the campaign ``releases``, which starts it as a process in the network of the clients. Reads addresses of nodes
from the command line, runs until standard input ends, and then writes its counts as JSON.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import sys
import threading
from collections import Counter

PARTS = 6  # of each page
TIMEOUT_S = 10.0


class Visitor(threading.Thread):
    """One client with a cookie. It goes to a random node for each page, and to another one if that node is away."""

    def __init__(self, nodes: list[str], seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self._nodes = nodes
        self._chance = random.Random(seed)
        self._stop_event = stop
        self._cookie = ""
        self._seen = 0

    def run(self) -> None:
        while not self._stop_event.is_set():
            self._visit()

    def _visit(self) -> None:
        page = f"/p{self._chance.randrange(50)}.html"
        status, number, body = self._get(page, "navigate")
        if status != 200:
            self.counts[f"page {status}"] += 1
            if status == 404:
                self.violations.append(f"{page} is missing")
            return
        self.counts["pages"] += 1
        parts = re.findall(r"/parts/[^\s]+", body)
        release = body.split()[0]
        for part in parts[:PARTS]:
            status, part_number, content = self._get(part, "no-cors")
            if status != 200:
                self.counts[f"part {status}"] += 1
                if status == 404:
                    self.violations.append(f"{part} of {page} (release {number}) is missing")
                continue
            self.counts["parts"] += 1
            if part_number != number:
                self.violations.append(f"{page} is of release {number}, {part} of release {part_number}")
            elif not content.startswith(f"{release} "):
                self.violations.append(f"{page} has the content {release}, {part} {content[:40]!r}")

    def _get(self, path: str, mode: str) -> tuple[int, int, str]:
        """Status, number of the release, and content. 0: no node responded."""
        for node in self._chance.sample(self._nodes, len(self._nodes)):
            host, _, port = node.rpartition(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
            try:
                connection.request("GET", path, headers={"Sec-Fetch-Mode": mode, "Cookie": self._cookie})
                response = connection.getresponse()
                body = response.read().decode()
            except (OSError, http.client.HTTPException):
                self.counts["no response"] += 1
                continue
            finally:
                connection.close()
            if response.status != 200:
                if response.status == 503:  # a node that is cut off, and behind what this client has seen
                    self.counts["503"] += 1
                    continue
                return response.status, 0, ""
            number = int(response.headers["QoSweb-Release"])
            if mode == "navigate":
                if number < self._seen:
                    self.violations.append(f"{path}: release {number} after release {self._seen}")
                self._seen = max(self._seen, number)
            cookie = response.headers.get("Set-Cookie")
            if cookie is not None:
                self._cookie = cookie.partition(";")[0]
            return 200, number, body
        return 0, 0, ""


def main() -> None:
    count, *nodes = sys.argv[1:]
    stop = threading.Event()
    visitors = [Visitor(nodes, seed, stop) for seed in range(int(count))]
    for visitor in visitors:
        visitor.start()
    sys.stdin.read()
    stop.set()
    for visitor in visitors:
        visitor.join(2 * TIMEOUT_S)
    counts: Counter[str] = sum((visitor.counts for visitor in visitors), Counter())
    violations = [one for visitor in visitors for one in visitor.violations]
    print(json.dumps({"counts": counts, "violations": violations[:20], "violation_count": len(violations)}))


if __name__ == "__main__":
    main()
