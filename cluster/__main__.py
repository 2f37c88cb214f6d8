"""``python -m cluster``: the group stack on its own. It has no commands yet."""

import argparse
import sys


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m cluster",
        description="The group communication stack of qosweb on its own. It has no commands yet.",
    )
    parser.parse_args(argv)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
