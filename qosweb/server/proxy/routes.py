"""Routes: which upstream servers a request may go to, and which of them it goes to.

A server is routed to by host, by path, by both, or by neither. Servers with equal hosts and paths form a route. The
route of a request is the most specific one that matches: first by host (a name before a pattern before any host), then
by path (an exact path before a pattern, a longer one before a shorter one).

Within a route a request goes to the server with the fewest requests in service for its weight. A server that is out
gets none, unless all are out: then trying is better than failing. Whether it is back is tried with a single request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.admission import Permit
    from qosweb.server.proxy.upstream_server import UpstreamServer

KNOWN_MAX = 4096


class Route:
    """Servers that serve the same requests."""

    def __init__(self, hosts: tuple[str, ...], paths: tuple[str, ...]) -> None:
        self.hosts = hosts
        self.paths = paths
        self.servers: list[UpstreamServer] = []
        self.only: UpstreamServer | None = None  # the server, if there is one
        self.pool: tuple[tuple[str, bool], ...] = ()  # the servers, as admission control knows them
        self._next = 0  # where the search for the least loaded server begins

    def pick(
        self, now: float, without: UpstreamServer | None = None, *, is_repeatable: bool = True
    ) -> UpstreamServer | None:
        """The server for a request. ``without``: not this one, it has just failed; None if there is no other.

        ``is_repeatable``: the request may be sent again if it fails. Only such requests try a server that was out.
        """
        servers = self.servers
        if len(servers) == 1:
            return servers[0] if servers[0] is not without else None
        usable = [one for one in servers if one is not without and one.may_serve(now)]
        trials = [one for one in usable if one.health.is_trial]
        if trials and is_repeatable and without is None:
            return trials[0]
        usable = [one for one in usable if not one.health.is_trial] or [one for one in servers if one is not without]
        self._next += 1
        start = self._next % len(usable)
        return min((*usable[start:], *usable[:start]), key=lambda one: one.load(now))

    def granted(self, permit: Permit | None, now: float, *, is_repeatable: bool) -> UpstreamServer | None:
        """The server whose slot was granted, unless it is out meanwhile; then as `pick`.

        Slots of a server that is out are not granted: whether it is back is tried with a request for another one.
        """
        if is_repeatable and len(self.servers) > 1:
            for one in self.servers:
                if not one.health.is_in and one.may_serve(now):
                    return one
        name = "" if permit is None else permit.server
        found = next((one for one in self.servers if one.name == name and one.may_serve(now)), None)
        return found or self.pick(now, is_repeatable=is_repeatable)

    def undo_pick(self) -> None:
        """The last pick was not used: the next one starts its search at the same server."""
        self._next -= 1

    def host_rank(self, host: str) -> int:
        """How specifically this route names ``host``: 0 not at all, 1 any host, 2 by a pattern, 3 by name."""
        if not self.hosts:
            return 1
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if host in self.hosts or name in self.hosts:
            return 3
        return 2 if any(one[:2] == "*." and name.endswith(one[1:]) for one in self.hosts) else 0

    def path_rank(self, path: str) -> int:
        """The same for ``path``: 0 not at all, 1 any path, then by the length of the pattern, an exact path first."""
        if not self.paths:
            return 1
        exact = [2 * len(one) + 3 for one in self.paths if one == path]
        prefix = [2 * len(one) for one in self.paths if one[-1] == "*" and path.startswith(one[:-1])]
        return max([*exact, *prefix], default=0)


class Routes:
    """All routes of a node."""

    def __init__(self, servers: Iterable[UpstreamServer]) -> None:
        self.servers = list(servers)
        routes: dict[tuple[tuple[str, ...], tuple[str, ...]], Route] = {}
        for server in self.servers:
            key = server.settings.hosts, server.settings.paths
            routes.setdefault(key, Route(*key)).servers.append(server)
        self._routes = list(routes.values())
        for route in self._routes:
            route.only = route.servers[0] if len(route.servers) == 1 else None
            route.pool = tuple((one.name, one.settings.scope == "cluster") for one in route.servers)
        only = self._routes[0] if len(self._routes) == 1 else None
        self._only = only if only is not None and not only.hosts and not only.paths else None
        self._known: dict[tuple[str, str], Route | None] = {}

    def find(self, host: str, path: str) -> Route | None:
        """The route of a request; None if no server is for it."""
        if self._only is not None:
            return self._only
        key = host, path
        if key not in self._known:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = self._search(host, path)
        return self._known[key]

    def _search(self, host: str, path: str) -> Route | None:
        ranked = [(route.host_rank(host), route.path_rank(path), route) for route in self._routes]
        matching = [one for one in ranked if one[0] and one[1]]
        return max(matching, key=lambda one: one[:2])[2] if matching else None
