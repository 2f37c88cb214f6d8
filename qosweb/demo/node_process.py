"""Process of a demo node: ``qosweb serve`` that stops when the demo ends, even if the demo is killed.

The demo holds the other end of standard input and never writes to it. End of file means that the demo has ended; then
the node stops gracefully. (A suspended node is continued by the kernel, because its process group becomes orphaned.)
Started by: `demo_nodes`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from qosweb.cli import main


def _stop_with_demo() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_demo, name="demo", daemon=True).start()
    sys.exit(main(["serve", *sys.argv[1:]]))
