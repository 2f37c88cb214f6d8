"""Options of a run, for the command line, Python programs and the worker processes. Pure."""

import msgspec


class LoadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace is sent. The options of ``loadgen run`` have the same names and defaults."""

    spread: str = "even"  # over targets: one (the first), even, skewed[:S], or weights such as 70,20,10
    allow_remote: bool = False  # allow targets on other machines
    processes: int = 0  # 0: as many as the trace needs, one core left free
    connections: int = 1000  # open at a time to each target
    timeout_s: float = 10.0  # from sending to the complete response
    connect_timeout_s: float = 5.0
    send_within_s: float = 5.0  # after its due time; else a request counts as unsent
    body_max: int = 1 << 30  # bytes of the largest response that is read
    redirects_max: int = 5  # followed per request; 0: none
    headers: dict[str, str] = {}  # of every request
    ca: str = ""  # a file of trusted certificates, for https
    insecure: bool = False  # do not check certificates
    clients: int = 0  # closed loop: number of clients, each waiting for its response; 0: open loop
    lasting_s: float = 10.0  # of a closed loop
    pause_s: float = 0.0  # mean pause of a closed-loop client between requests
