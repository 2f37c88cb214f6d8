"""Application file for ``spark-submit``: runs ``qosweb analyze`` with the arguments that follow it."""

import sys

if __name__ == "__main__":
    from qosweb.cli import main

    sys.exit(main(["analyze", *sys.argv[1:]]))
