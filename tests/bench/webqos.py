"""``./dev bench webqos``: the class of a request at 10 and at 5,000 rules, beside trying the rules in turn."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import re
import statistics
import sys
import time
from typing import TYPE_CHECKING

from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model.build import build
from qosweb.webqos.policy.binding import bind, problem_of
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.environment import Environment
from qosweb.webqos.syntax.places import Source

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = (10, 100, 1_000, 5_000)
RATIO_MAX = 3.0  # of the time at most rules to that at least
PATHS = 400


class Request:
    """Facts of a request; what is asked of them costs next to nothing."""

    def number(self, subject: str, argument: str) -> int | None:  # noqa: ARG002
        return 2 << 20

    def text(self, subject: str, argument: str) -> str | None:  # noqa: ARG002
        return "10.1.2.3"

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False


def specification(rules: int) -> str:
    """Prefixes, wildcards, hosts and conditions, as a large site would have them."""
    lines = []
    for number in range(rules):
        match number % 10:
            case 8:
                lines.append(f"</list{number % 97}/*/item-{number}.html>.num_requests < {number + 1}")
            case 9:
                lines.append(f"client in 10.0.0.0/8 => </section{number % 97}/own{number}>.num_bytes < {number + 1}")
            case 7:
                lines.append(f"<host{number % 13}.example.com/page{number}>.num_bytes < {number + 1}")
            case _:
                lines.append(f"</section{number % 97}/page{number}>.num_bytes < {number + 1}")
    return "\n".join(lines)


def paths(rules: int) -> list[tuple[str, str]]:
    found = []
    for at in range(PATHS):
        number = at * rules // PATHS // 10 * 10
        found.append(
            [
                ("www.example.com", f"/section{number % 97}/page{number}/a/b.html"),
                (f"host{(number + 7) % 13}.example.com", f"/page{number + 7}"),
                ("www.example.com", f"/section{(number + 9) % 97}/own{number + 9}/x"),
                ("www.example.com", f"/nowhere/{at}.html"),
            ][at % 4]
        )
    return found


def microseconds(work: Callable[[], object], calls: int) -> float:
    """Of one call: the median of several runs."""
    runs = []
    for _ in range(7):
        start = time.perf_counter()
        work()
        runs.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(runs)


def measure(rules: int) -> dict[str, float]:
    start = time.perf_counter()
    built = build(Source("bench", specification(rules)))
    assert built.model is not None
    compiled = time.perf_counter()
    model = built.model
    matcher = Matcher(model)
    asked = paths(rules)
    request = Request()
    serials = itertools.count()
    for host, path in asked:
        matcher.classify(host, path, request)

    def warm() -> None:
        for host, path in asked:
            matcher.classify(host, path, request)

    def fresh() -> None:
        """Paths that were never asked for."""
        serial = next(serials)
        for host, path in asked:
            matcher.classify(host, f"{path}{serial}", request)

    scan = [
        (pattern.host, re.compile("/" + "/".join(map(re.escape, pattern.segments)).replace(r"\*", "[^/]*") + "(/.*)?"))
        for page_set in model.page_sets
        for pattern in page_set.patterns
    ]

    def in_turn() -> None:
        for host, path in asked[:8]:
            for wanted, expression in scan:
                if (wanted is None or wanted == host) and expression.fullmatch(path):
                    break

    coverage = Coverage(model)
    environment = Environment()
    start_bind = time.perf_counter()
    problem_of(model, coverage, bind(model, coverage, environment))
    bind_ms = (time.perf_counter() - start_bind) * 1e3
    return {
        "rules": rules,
        "classes": len(model.classes),
        "classify_us": microseconds(warm, len(asked)),
        "classify_new_path_us": microseconds(fresh, len(asked)),
        "rules_in_turn_us": microseconds(in_turn, 8),
        "compile_s": compiled - start,
        "bind_ms": bind_ms,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench webqos", description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON")
    options = parser.parse_args(arguments)
    rows = [measure(rules) for rules in RULES]
    ratio = rows[-1]["classify_us"] / rows[0]["classify_us"]
    if options.json:
        print(json.dumps({"python": platform.python_version(), "rows": rows, "ratio": ratio}, indent=2))
    else:
        print(f"Python {platform.python_version()}; microseconds for the class of one request")
        print(" rules  classes  known path  new path   in turn  compile s  bind ms")
        for row in rows:
            print(
                f"{row['rules']:>6} {row['classes']:>8} {row['classify_us']:>11.2f} "
                f"{row['classify_new_path_us']:>9.2f} {row['rules_in_turn_us']:>9.1f} "
                f"{row['compile_s']:>10.2f} {row['bind_ms']:>8.1f}"
            )
        print(f"{RULES[-1]} rules cost {ratio:.2f} times what {RULES[0]} cost")
    return 0 if ratio <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
