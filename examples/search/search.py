"""Replicated full-text search: every member indexes all documents, and the members share the searches."""

import argparse
import asyncio
import json
import sqlite3
from pathlib import Path

from aiohttp import web

from cluster import DataResult, DataService, Full, NotDelivered, Options, ProcessId, QueryFailed, View, read_key_file

UPDATE_S = 5.0  # how long an update waits for a majority
SEARCH_S = 5.0  # how long a search waits for the state that its client has seen
TEXT_MAX = 512 * 1024
SEEN = "seen"  # the cookie with the index of the state that the client has seen


class SearchIndex:
    """The state machine: documents in a full-text index of SQLite (FTS5), in memory."""

    def __init__(self) -> None:
        self.restore(b"[]")

    def apply(self, _position: int, _origin: ProcessId, body: bytes) -> int:
        """Put a document, or delete it if there is no text. Returns how many documents there are."""
        name, text = json.loads(body)
        self.database.execute("DELETE FROM documents WHERE name = ?", (name,))
        if text is not None:
            self.database.execute("INSERT INTO documents (name, text) VALUES (?, ?)", (name, text))
        count: int = self.database.execute("SELECT count(*) FROM documents").fetchone()[0]
        return count

    def query(self, body: bytes) -> bytes:
        """The best matches, as JSON. An expression that FTS5 does not understand raises an exception."""
        words, limit = json.loads(body)
        found = self.database.execute(
            "SELECT name, snippet(documents, 1, '[', ']', '...', 12) FROM documents WHERE documents MATCH ? "
            "ORDER BY rank, name LIMIT ?",
            (words, limit),
        )
        return json.dumps([{"name": name, "text": text} for name, text in found]).encode()

    def view_changed(self, _position: int, _view: View) -> None:
        """Nothing in the state depends on the members."""

    def snapshot(self) -> bytes:
        return json.dumps(self.database.execute("SELECT name, text FROM documents ORDER BY name").fetchall()).encode()

    def restore(self, state: bytes) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE VIRTUAL TABLE documents USING fts5(name UNINDEXED, text)")
        self.database.executemany("INSERT INTO documents (name, text) VALUES (?, ?)", json.loads(state))


class Endpoint:
    """HTTP in front of one member: PUT and DELETE /documents/NAME, GET /search?q=WORDS, GET /status."""

    def __init__(self, service: DataService) -> None:
        self.service = service

    async def put(self, request: web.Request) -> web.Response:
        try:
            text = (await request.read()).decode()
        except UnicodeDecodeError:
            return problem(400, "a document is text in UTF-8")
        return await self.update(request.match_info["name"], text)

    async def delete(self, request: web.Request) -> web.Response:
        return await self.update(request.match_info["name"], None)

    async def update(self, name: str, text: str | None) -> web.Response:
        try:
            async with asyncio.timeout(UPDATE_S):
                reply = await self.service.update(json.dumps([name, text]).encode())
        except TimeoutError:
            return problem(503, f"no majority of the members within {UPDATE_S:g} s; the change may still happen")
        except (NotDelivered, Full) as error:
            return problem(503, str(error))
        return answer({"documents": reply.result}, reply)

    async def search(self, request: web.Request) -> web.Response:
        limit, seen = request.query.get("limit", "10"), request.cookies.get(SEEN, "0")
        if "q" not in request.query or not limit.isdecimal() or not 0 < int(limit) <= 100 or not is_index(seen):
            return problem(400, "expected /search?q=WORDS, perhaps with limit=1 to 100 and a cookie of this service")
        try:
            async with asyncio.timeout(SEARCH_S):
                body = json.dumps([request.query["q"], int(limit)]).encode()
                reply = await self.service.query(body, seen=int(seen))
        except TimeoutError:
            return problem(503, "no member here has the changes that you have seen: it is cut off from the others")
        except QueryFailed as error:
            return problem(400, f"the words are no expression of FTS5: {error}")
        except ValueError as error:
            return problem(400, str(error))
        except (NotDelivered, Full) as error:
            return problem(503, str(error))
        assert isinstance(reply.result, bytes)
        return answer({"found": json.loads(reply.result)}, reply)

    async def status(self, _request: web.Request) -> web.Response:
        view = self.service.primary
        members = [member.name for member in view.members] if view is not None else []
        return web.json_response(
            {"primary": members, "index": self.service.index, "searches_executed": self.service.executed}
        )


def is_index(text: str) -> bool:
    return text.isdecimal() and len(text) < 16


def answer(fields: dict[str, object], reply: DataResult) -> web.Response:
    """The client has now seen the state at the index of the reply: it brings the cookie to any member."""
    response = web.json_response({**fields, "index": reply.index})
    response.set_cookie(SEEN, str(reply.index), httponly=True, samesite="Lax")
    return response


def problem(status: int, reason: str) -> web.Response:
    return web.json_response({"error": reason}, status=status)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--key-file", type=Path, required=True)
    parser.add_argument("--listen", default="127.0.0.1:0", help="address for the other members")
    parser.add_argument("--http", default="127.0.0.1:0", help="address for clients")
    parser.add_argument("--join", action="append", default=[])
    parser.add_argument("--found", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sharing", default="round robin", help='or "least loaded": who answers a search')
    given = parser.parse_args()
    options = Options(
        name=given.name,
        key=read_key_file(given.key_file),
        listen=(given.listen,),
        contacts=tuple(given.join),
        data=given.data,
    )
    begin = DataService.found if given.found else DataService.join
    service = await begin(options, SearchIndex(), sharing=given.sharing)
    endpoint = Endpoint(service)
    application = web.Application(client_max_size=TEXT_MAX)
    application.router.add_put("/documents/{name}", endpoint.put)
    application.router.add_delete("/documents/{name}", endpoint.delete)
    application.router.add_get("/search", endpoint.search)
    application.router.add_get("/status", endpoint.status)
    runner = web.AppRunner(application)
    await runner.setup()
    host, _, port = given.http.rpartition(":")
    site = web.TCPSite(runner, host, int(port))
    await site.start()
    shown = {"name": given.name, "members": service.addresses[0], "http": f"{host}:{runner.addresses[0][1]}"}
    print(json.dumps(shown), flush=True)
    await service.replica.group.stopped.wait()


if __name__ == "__main__":
    asyncio.run(main())
