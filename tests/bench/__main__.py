"""``./dev bench NAME``: runs one of the benchmarks in this folder."""

import importlib
import signal
import sys

BENCHMARKS = {
    "admission": "overhead of admission control for a request that is served at once",
    "analyze": "analysis of a log, compared with one aggregate on Spark and DuckDB, and with goaccess",
    "blocking": "how long until a block is in force at all nodes, in both parts of a partitioned cluster",
    "blocks": "the block list with 100,000 entries: lookup by longest prefix, operations, merges",
    "bulk": "a large file to several receivers by multicast, compared with udpcast, uftp and TCP",
    "contention": "queued decisions of three nodes over a real group, compared with a plain queue",
    "decisions": "a queued decision in the replicated state machine, by batch, queue length and classes",
    "group": "total order broadcast of three members, compared with pysyncobj, etcd, corosync and a bare sequencer",
    "http": "static files, compared with nginx and aiohttp's add_static",
    "line": "shares on an outgoing line whose rate nobody has set, in network namespaces",
    "live": "age of live figures, and time until all nodes know an access; also while one node is stalled",
    "loadgen": "the load generator, compared with wrk at the same rate",
    "memory": "memory of a node before and after a million requests",
    "processor": "shares while the processor is full, and no capacity is set",
    "proxy": "a reverse proxy, compared with nginx and HAProxy by processor time per request",
    "queries": "queries of the data service, shared by 1, 3 and 5 members; round robin and least loaded",
    "sending": "a node with a set capacity: what one client gets, and what slow readers cost others",
    "servers": "shares of application servers whose slots nobody has set, also while workers are lost and return",
    "shares": "dividing the capacity among 5, 20 and 50 classes, compared with a linear program of scipy",
    "stack": "one broadcast through the whole group stack, by batch size and by layer",
    "streams": "time to the first event of an event stream, compared with the server behind",
    "store": "a transaction on disk, compared with plain appends to a file",
    "tls": "handshakes and encrypted responses, compared with nginx",
    "webqos": "classifying a request with 10 and with 5,000 rules",
}


def main() -> int:
    name, *rest = sys.argv[1:] or [""]
    if name not in BENCHMARKS:
        if name:
            print(f"no benchmark '{name}'; there are:", file=sys.stderr)
        for known, what in BENCHMARKS.items():
            print(f"  ./dev bench {known:<10} {what}")
        return 2 if name else 0
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # ends processes and namespaces
    code: int = importlib.import_module(f"tests.bench.{name}").main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
