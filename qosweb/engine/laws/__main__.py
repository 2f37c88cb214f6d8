"""``python -m qosweb.engine.laws``: simulates the law of application servers and prints a table."""

import sys

from qosweb.engine.laws.sim.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], lambda text: print(text, flush=True)))
