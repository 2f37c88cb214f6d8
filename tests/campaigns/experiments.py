"""Runs all experiments of the load generator at full length and writes their report: the papers' figures, measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from loadgen.cli import main as loadgen


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign experiments", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("report"), metavar="DIR", help="folder for the report (default: report)"
    )
    options, rest = parser.parse_known_args(arguments)
    return loadgen(["experiments", "all", "--out", str(options.out), *rest])
