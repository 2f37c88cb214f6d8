"""Outcomes of a request. Pure.

accepted    a complete response with status 2xx or 304
denied      503 or 429: the server declined to serve the request now
redirected  3xx, where redirects are not followed
failed      anything else, by cause
unsent      the generator had no connection to send it on within the time allowed (--send-within)
"""

ACCEPTED, DENIED, REDIRECTED, FAILED, UNSENT = "accepted", "denied", "redirected", "failed", "unsent"
OUTCOMES = (ACCEPTED, DENIED, REDIRECTED, FAILED, UNSENT)

REFUSED = "connection refused"
CONNECT_TIMEOUT = "no connection in time"
RESET = "connection reset"
CLOSED = "closed without an answer"
CUT_OFF = "closed within the answer"
TIMEOUT = "no complete answer in time"
NO_BODY = "its body could not be read"
INTERRUPTED = "interrupted"
DIED = "a process of the load generator ended"
REDIRECTS = "too many redirects"
REDIRECT_UNSENT = "redirect not sent in time"
REDIRECT_AWAY = "redirect to another machine"
BAD_REDIRECT = "redirect that leads nowhere"

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})


def outcome_of(status: int) -> str:
    if 200 <= status < 300 or status == 304:
        return ACCEPTED
    if status in (503, 429):
        return DENIED
    if status in REDIRECT_STATUSES:
        return REDIRECTED
    return FAILED
