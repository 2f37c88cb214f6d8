"""The command ``loadgen``. It has no commands yet."""

import argparse
from importlib.metadata import version


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="loadgen",
        description="Load generation for qosweb: traces, runs, reports. It has no commands yet.",
    )
    parser.add_argument("--version", action="version", version=f"loadgen {version('qosweb')}")
    parser.parse_args(argv)
    parser.print_help()
    return 0
