"""``./dev bench webqos``: classifying a request with 10 and 5,000 rules, compared with trying the rules in turn."""

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

from qosweb.webqos import Environment
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model.build import build
from qosweb.webqos.policy.binding import bind, problem_of
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.syntax.positions import Source

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = (10, 100, 1_000, 5_000)
RATIO_MAX = 2.0  # of the time at most rules to that at least
PATHS = 400


class Request:
    """Facts of a request, as cheap as possible."""

    def number(self, subject: str, argument: str) -> int | None:  # noqa: ARG002
        return 2 << 20

    def text(self, subject: str, argument: str) -> str | None:  # noqa: ARG002
        return "10.1.2.3"

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False


def specification(rules: int) -> str:
    """Prefixes, wildcards, hosts and conditions, as on a large site."""
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
    """The same number of different paths for few rules as for many."""
    found = []
    for at in range(PATHS):
        number = at * rules // PATHS // 10 * 10
        found.append(
            [
                ("www.example.com", f"/section{number % 97}/page{number}/a/b{at}.html"),
                (f"host{(number + 7) % 13}.example.com", f"/page{number + 7}/{at}"),
                ("www.example.com", f"/section{(number + 9) % 97}/own{number + 9}/x{at}"),
                ("www.example.com", f"/nowhere/{at}.html"),
            ][at % 4]
        )
    return found


def microseconds(work: Callable[[], object], calls: int) -> float:
    """CPU time of one call, in microseconds."""
    start = time.thread_time()
    work()
    return (time.thread_time() - start) / calls * 1e6


class Site:
    """A specification with a given number of rules, and requests to its pages."""

    def __init__(self, rules: int) -> None:
        self.rules = rules
        start = time.thread_time()
        built = build(Source("bench", specification(rules)))
        self.compile_s = time.thread_time() - start
        assert built.model is not None
        self.model = built.model
        self._matcher = Matcher(self.model)
        self._paths = paths(rules)
        self._request = Request()
        self._serials = itertools.count()
        self._scan = [
            (
                pattern.host,
                re.compile("/" + "/".join(map(re.escape, pattern.segments)).replace(r"\*", "[^/]*") + "(/.*)?"),
            )
            for page_set in self.model.page_sets
            for pattern in page_set.patterns
        ]

    def known(self) -> None:
        """Paths that were requested before."""
        matcher, request = self._matcher, self._request
        for host, path in self._paths:
            matcher.classify(host, path, request)

    def new(self) -> list[tuple[str, str]]:
        """Paths that were never requested."""
        serial = next(self._serials)
        return [(host, f"{path}{serial}") for host, path in self._paths]

    def classify(self, asked: list[tuple[str, str]]) -> None:
        matcher, request = self._matcher, self._request
        for host, path in asked:
            matcher.classify(host, path, request)

    def in_turn(self) -> None:
        for host, path in self._paths[:8]:
            for wanted, expression in self._scan:
                if (wanted is None or wanted == host) and expression.fullmatch(path):
                    break

    def bind_ms(self) -> float:
        coverage = Coverage(self.model)
        start = time.thread_time()
        problem_of(self.model, coverage, bind(self.model, coverage, Environment()))
        return (time.thread_time() - start) * 1e3


def measure(runs: int) -> list[dict[str, float]]:
    """Measures all sizes in turns, so that disturbances affect all of them."""
    sites = [Site(rules) for rules in RULES]
    times: dict[tuple[int, str], list[float]] = {}
    for _ in range(runs):
        for site in sites:
            new = site.new()
            for name, work, calls in (
                ("classify_us", site.known, PATHS),
                ("classify_new_path_us", lambda site=site, new=new: site.classify(new), PATHS),
                ("rules_in_turn_us", site.in_turn, 8),
            ):
                times.setdefault((site.rules, name), []).append(microseconds(work, calls))
    return [
        {
            "rules": site.rules,
            "classes": len(site.model.classes),
            **{name: statistics.median(found) for (rules, name), found in times.items() if rules == site.rules},
            "compile_s": site.compile_s,
            "bind_ms": site.bind_ms(),
        }
        for site in sites
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench webqos", description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON")
    parser.add_argument("--runs", type=int, default=31, help="runs, of which the median counts")
    options = parser.parse_args(arguments)
    rows = measure(options.runs)
    ratios = {name: rows[-1][name] / rows[0][name] for name in ("classify_us", "classify_new_path_us")}
    if options.json:
        print(json.dumps({"python": platform.python_version(), "rows": rows, "ratios": ratios}, indent=2))
    else:
        print(f"Python {platform.python_version()}; microseconds of CPU time to classify one request")
        print(" rules  classes  known path  new path   in turn  compile s  bind ms")
        for row in rows:
            print(
                f"{row['rules']:>6} {row['classes']:>8} {row['classify_us']:>11.2f} "
                f"{row['classify_new_path_us']:>9.2f} {row['rules_in_turn_us']:>9.1f} "
                f"{row['compile_s']:>10.2f} {row['bind_ms']:>8.1f}"
            )
        known, new = ratios.values()
        print(f"{RULES[-1]} rules cost {known:.2f} times what {RULES[0]} cost on a known path, {new:.2f} on a new one")
    return 0 if max(ratios.values()) <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
