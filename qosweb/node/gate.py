"""The gate: whether a request may start now.

It stands between finding a page and answering with it. ``start`` says yes or no at once, which costs the fast path
neither a task nor a future; after a yes ``finish`` must follow. No means not now. The fast path leaves the request
to the stages, where ``admit`` may answer WAITING and be resumed, as ``find_page`` does; one with a queue will.
"""


class OpenGate:
    """Lets everything in and counts who is inside."""

    __slots__ = ("in_service",)

    def __init__(self) -> None:
        self.in_service = 0

    def start(self) -> bool:
        self.in_service += 1
        return True

    def finish(self) -> None:
        self.in_service -= 1
