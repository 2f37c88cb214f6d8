"""The gate: whether a request may start now.

It stands between finding the page and answering, on the path of every request. The answer is given at once:
True starts the request, and ``finish`` must follow. A gate that has to think (a queue, a cluster) says False on the
fast path, which costs neither a task nor a future, and takes the request over on the ordinary path.
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
