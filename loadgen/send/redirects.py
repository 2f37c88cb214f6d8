"""Follows redirects: resolves the location and decides whether to follow it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin

from msgspec import UNSET
from msgspec.structs import replace

from loadgen.results.outcomes import BAD_REDIRECT, REDIRECT_AWAY, REDIRECTS
from loadgen.send.targets import Target, split_address
from loadgen.trace.request import fault_in_url
from qosweb.units import is_loopback

if TYPE_CHECKING:
    from loadgen.run.messages import Job
    from loadgen.send.pending_request import PendingRequest
    from loadgen.send.response_reader import ResponseHead
    from loadgen.trace.request import TraceRequest


class RedirectNotFollowed(Exception):
    """A redirect is not followed; the text is the cause of the failure."""


class RedirectStep(NamedTuple):
    """The next request: ``request`` to ``target``; ``url`` is its absolute address."""

    target: Target
    request: TraceRequest
    url: str


def follow(shot: PendingRequest, head: ResponseHead, job: Job) -> RedirectStep:
    """RFC 9110 section 15.4: 307 and 308 keep the method, 303 makes it GET, 301 and 302 make POST a GET."""
    if shot.redirects > job.options.redirects_max:
        raise RedirectNotFollowed(REDIRECTS)
    first = shot.request.url if shot.request.url[0] != "/" else job.targets[shot.target].url + shot.request.url
    try:
        url = urljoin(shot.url or first, head.location).partition("#")[0]
        scheme, host, port, path = split_address(url)
    except ValueError:
        raise RedirectNotFollowed(BAD_REDIRECT) from None
    if not head.location or fault_in_url(path):
        raise RedirectNotFollowed(BAD_REDIRECT)
    method, body = shot.method, shot.request.body
    if (head.status == 303 and method != "HEAD") or (head.status in (301, 302) and method == "POST"):
        method = "GET"
    if method == "GET":
        body = UNSET
    if shot.request.url[0] != "/" and split_address(first)[:3] == (scheme, host, port):
        # The trace named this host, which the target serves: stay there, under that name.
        return RedirectStep(job.targets[shot.target], replace(shot.request, url=url, method=method, body=body), url)
    target = next((t for t in job.targets if (t.scheme, t.host, t.port) == (scheme, host, port)), None)
    if target is None:
        if not is_loopback(host) and not job.options.allow_remote:
            raise RedirectNotFollowed(REDIRECT_AWAY)
        target = Target(scheme, host, port, host)
    return RedirectStep(target, replace(shot.request, url=path, method=method, body=body), url)
