"""Requests as the bytes that are written, prepared once for each that repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadgen.trace.request import split_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadgen.targets import Target
    from loadgen.trace.request import Request

_PREPARED_MAX = 20_000
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Payloads:
    """For the targets of a run. ``headers`` go with every request; those of a request win over them."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = {"User-Agent": "loadgen", **headers}
        self._common = _lines(self._headers)
        self._prepared: dict[tuple[str, str, str], bytes] = {}

    def of(self, request: Request, target: Target) -> bytes:
        if request.headers is not msgspec.UNSET:
            overridden = {name.lower() for name in request.headers}
            kept = {name: value for name, value in self._headers.items() if name.lower() not in overridden}
            return _payload(request.method, request.url, target.authority, _lines({**kept, **request.headers}))
        return self.plain(request.method, request.url, target.authority)

    def plain(self, method: str, url: str, authority: str) -> bytes:
        key = (method, url, authority)
        payload = self._prepared.get(key)
        if payload is None:
            if len(self._prepared) >= _PREPARED_MAX:
                self._prepared.clear()
            payload = self._prepared[key] = _payload(method, url, authority, self._common)
        return payload


def _payload(method: str, url: str, authority: str, fields: str) -> bytes:
    host, path = split_url(url)
    length = "Content-Length: 0\r\n" if method in _WITH_BODY else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host or authority}\r\n{fields}{length}\r\n".encode("latin-1")


def _lines(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items())
