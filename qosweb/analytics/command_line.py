"""Command-line options of ``qosweb analyze``. Imports nothing of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse


def add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Check access logs against the policy: was every guarantee held, violated or not tested, window by window? "
        "Exit code 0: no violation; 1: a violation; 2: bad input; 3, with --strict: no guarantee could be judged."
    )
    parser.epilog = """\
examples:
  qosweb analyze /var/log/qosweb/
  qosweb analyze n1.log n2.log --out report
  qosweb analyze /var/log/qosweb/ --follow --out report"""
    parser.add_argument("logs", metavar="LOG", nargs="+", help="files, folders or globs: JSON lines, combined, Parquet")
    parser.add_argument("--spec", metavar="FILE", help="specification to judge by (default: the policies in the logs)")
    parser.add_argument("--out", metavar="DIR", help="write report.json, report.html and Parquet files to this folder")
    parser.add_argument("--json", action="store_true", help="write the report as JSON to standard output, for scripts")
    parser.add_argument("--strict", action="store_true", help="exit with 3 if no guarantee could be judged")
    parser.add_argument("--quiet", action="store_true", help="do not show progress")
    parser.add_argument(
        "--each", action="store_true", help="judge every LOG separately (NAME=LOG); --out then has a folder per NAME"
    )
    parser.add_argument(
        "--format", choices=("json", "combined", "parquet"), help="format of the logs (default: detected per file)"
    )
    judging = parser.add_argument_group("verdicts")
    judging.add_argument("--window", metavar="TIME", default="10s", help="length of a judged window (10s)")
    judging.add_argument("--slot", metavar="TIME", default="1s", help="resolution of contention in a window (1s)")
    judging.add_argument(
        "--tolerance", metavar="SHARE", default="2%", help="tolerance of shares, of what a window served (2%%)"
    )
    judging.add_argument("--run-tolerance", metavar="SHARE", default="1%", help="the same over the whole run (1%%)")
    judging.add_argument("--rate-tolerance", metavar="SHARE", default="5%", help="tolerance of a rate (5%%)")
    judging.add_argument("--slack", metavar="TIME", default="50ms", help="tolerance of a time (50ms)")
    judging.add_argument(
        "--slow", metavar="SHARE", default="1%", help="part of the requests that may exceed a response time (1%%)"
    )
    judging.add_argument("--waited", metavar="TIME", default="5ms", help="shortest wait that shows contention (5ms)")
    judging.add_argument(
        "--response", choices=("service", "total"), default="service",
        help="what a response time measures: the service alone, or with the wait (service)",
    )  # fmt: skip
    judging.add_argument(
        "--request-cost", metavar="SIZE", default="0", help="bytes charged for each request besides its own (0)"
    )
    judging.add_argument("--capacity", metavar="RATE", help="capacity of the cluster, if not in the logs: 20MB/s")
    judging.add_argument("--skip", metavar="TIME", default="0s", help="do not judge the beginning of the log (0s)")
    growing = parser.add_argument_group("growing logs")
    growing.add_argument("--follow", action="store_true", help="judge windows as they close, until Ctrl-C; needs --out")
    growing.add_argument("--checkpoint", metavar="DIR", help="state for a restart (default: checkpoint in --out)")
    growing.add_argument("--every", metavar="TIME", default="5s", help="interval between reads of the logs (5s)")
    growing.add_argument("--late", metavar="TIME", default="30s", help="how late a line may arrive (30s)")
    spark = parser.add_argument_group("Spark")
    spark.add_argument("--master", metavar="URL", help="such as spark://host:7077 (this machine)")
    spark.add_argument("--timings", action="store_true", help="say at the end how long each step took")
    spark.add_argument(
        "--keep-lines", action="store_true", help="also write the lines as Parquet, for a second analysis"
    )
