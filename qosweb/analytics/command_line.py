"""Command-line options of ``qosweb analyze``. Imports nothing of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Say from access logs whether every promise was held, violated, or not tested, window by window. Exit code 0: "
        "none was violated; 1: one was; 2: bad input."
    )
    parser.add_argument("logs", metavar="LOG", nargs="+", help="files, folders or globs: JSON lines, combined, Parquet")
    parser.add_argument("--spec", metavar="FILE", help="the specification (those that the logs have)")
    parser.add_argument("--out", metavar="DIR", help="write report.json, report.html and Parquet there")
    parser.add_argument("--json", action="store_true", help="for scripts: the report as JSON on standard output")
    parser.add_argument("--quiet", action="store_true", help="say nothing of what is being done")
    parser.add_argument(
        "--each", action="store_true", help="judge every LOG for itself (NAME=LOG), with --out in a folder NAME"
    )
    parser.add_argument("--format", choices=("json", "combined", "parquet"), help="of the logs (as they look)")
    judging = parser.add_argument_group("how to judge")
    judging.add_argument("--window", metavar="TIME", default="10s", help="what is judged at once (10s)")
    judging.add_argument("--slot", metavar="TIME", default="1s", help="in which contention is looked for (1s)")
    judging.add_argument(
        "--tolerance", metavar="SHARE", default="2%", help="of what was served in a window, for shares (2%%)"
    )
    judging.add_argument("--run-tolerance", metavar="SHARE", default="1%", help="the same over the whole run (1%%)")
    judging.add_argument("--rate-tolerance", metavar="SHARE", default="5%", help="of a rate (5%%)")
    judging.add_argument("--slack", metavar="TIME", default="50ms", help="that times may be exceeded by (50ms)")
    judging.add_argument("--slow", metavar="SHARE", default="1%", help="that may exceed a response time (1%%)")
    judging.add_argument("--waited", metavar="TIME", default="5ms", help="a wait that shows contention (5ms)")
    judging.add_argument(
        "--response", choices=("service", "total"), default="service",
        help="what a response time is: of the service alone, or with the wait (service)",
    )  # fmt: skip
    judging.add_argument(
        "--request-cost", metavar="SIZE", default="0", help="charged for each request besides its bytes"
    )
    judging.add_argument("--capacity", metavar="RATE", help="of the cluster, where the logs do not say it: 20MB/s")
    judging.add_argument("--skip", metavar="TIME", default="0s", help="not judged, from the beginning (0s)")
    growing = parser.add_argument_group("logs that grow")
    growing.add_argument("--follow", action="store_true", help="judge windows as they close, until Ctrl-C; needs --out")
    growing.add_argument("--checkpoint", metavar="DIR", help="where a restart goes on (checkpoint in --out)")
    growing.add_argument("--every", metavar="TIME", default="5s", help="how often to look for new lines (5s)")
    growing.add_argument("--late", metavar="TIME", default="30s", help="how late a line may come (30s)")
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", default="local[*]", help="such as spark://host:7077 (this machine)")
    spark.add_argument("--keep-lines", action="store_true", help="write the lines as Parquet, too, for a second look")
