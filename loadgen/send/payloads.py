"""Encodes requests as bytes without bodies, once for each distinct request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadgen.trace.request import WITH_BODY, split_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from loadgen.send.targets import Target
    from loadgen.trace.request import TraceRequest

_PREPARED_MAX = 20_000
_UNKNOWN_CONTENT = {"Content-Type": "application/octet-stream"}


class Payloads:
    """Encoded requests for one target. ``headers`` go with every request; a request's own headers override them."""

    def __init__(self, target: Target, headers: Mapping[str, str]) -> None:
        self._authority = target.authority
        self._headers = _overridden({"User-Agent": "loadgen"}, headers)
        self._common = _lines(self._headers)
        self._prepared: dict[str, tuple[str, bytes]] = {}  # by URL: the last method, and the bytes

    def of(self, request: TraceRequest, body_len: int = 0) -> bytes:
        if body_len or request.body is not msgspec.UNSET:
            return self._with_body(request, body_len)
        if request.headers is not msgspec.UNSET:
            return self._special(request, request.headers)
        url = request.url
        prepared = self._prepared.get(url)
        if prepared is not None and prepared[0] == request.method:
            return prepared[1]
        if len(self._prepared) >= _PREPARED_MAX:
            self._prepared.clear()
        payload = _payload(request.method, url, self._authority, self._common)
        self._prepared[url] = (request.method, payload)
        return payload

    def _special(self, request: TraceRequest, headers: Mapping[str, str]) -> bytes:
        return _payload(request.method, request.url, self._authority, _lines(_overridden(self._headers, headers)))

    def _with_body(self, request: TraceRequest, length: int) -> bytes:
        headers = _overridden(_UNKNOWN_CONTENT, self._headers)
        if request.headers is not msgspec.UNSET:
            headers = _overridden(headers, request.headers)
        return _payload(request.method, request.url, self._authority, _lines(headers), length)


def _payload(method: str, url: str, authority: str, fields: str, body_len: int = 0) -> bytes:
    host, path = split_url(url)
    length = f"Content-Length: {body_len}\r\n" if body_len or method in WITH_BODY else ""
    return f"{method} {path} HTTP/1.1\r\nHost: {host or authority}\r\n{fields}{length}\r\n".encode("latin-1")


def _overridden(fields: Mapping[str, str], by: Mapping[str, str]) -> dict[str, str]:
    """Header names are case-insensitive."""
    names = {name.lower() for name in by}
    return {**{name: value for name, value in fields.items() if name.lower() not in names}, **by}


def _lines(fields: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in fields.items())
