"""``./dev bench NAME``: runs one of the benchmarks in this folder."""

import importlib
import sys

BENCHMARKS = {
    "admission": "what keeping promises costs a request that finds room",
    "analyze": "the analysis of a log, beside one aggregate on Spark and on DuckDB, and beside goaccess",
    "contention": "the decisions of three nodes in contention over a real group, beside a plain queue",
    "decisions": "a queued decision in the replicated machine, by batch, by who waits and by classes",
    "group": "totally ordered broadcast by three members, beside pysyncobj, etcd, corosync and a bare sequencer",
    "http": "static files beside nginx and aiohttp's add_static",
    "loadgen": "the load generator beside wrk at the same rate",
    "memory": "a million requests, and what the process holds before and after",
    "shares": "dividing the capacity among 5, 20 and 50 classes, beside a linear program of scipy",
    "stack": "one broadcast through the whole group stack, by batch size and by layer",
    "store": "a transaction on disk, beside plain appends to a file",
    "webqos": "the class of a request at 10 and at 5,000 rules",
}


def main() -> int:
    name, *rest = sys.argv[1:] or [""]
    if name not in BENCHMARKS:
        if name:
            print(f"no benchmark '{name}'; there are:", file=sys.stderr)
        for known, what in BENCHMARKS.items():
            print(f"  ./dev bench {known:<10} {what}")
        return 2 if name else 0
    code: int = importlib.import_module(f"tests.bench.{name}").main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
