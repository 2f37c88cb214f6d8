"""``python -m qosweb.engine.sim``: runs the simulator of the engine."""

import sys
import time

from qosweb.engine.sim.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], time.monotonic, lambda text: print(text, flush=True)))
