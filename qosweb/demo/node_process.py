"""A node of the demo, as a process: ``qosweb serve`` that ends when the demo does, however that ended.

The demo holds the other end of standard input and never writes to it. When that is closed, the demo is gone, and the
node ends in order. (A node that was stopped is continued by the kernel when the demo leaves its group an orphan.)
Started by: `demo_nodes`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from qosweb.cli import main


def _end_with_the_demo() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_end_with_the_demo, name="demo", daemon=True).start()
    sys.exit(main(["serve", *sys.argv[1:]]))
