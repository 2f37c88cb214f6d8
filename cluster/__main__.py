"""Entry point of ``python -m cluster``. It imports little, so that Ctrl-C works from the start."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # while modules are imported, Ctrl-C ends the process without a traceback
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cluster.runtime.commands.main import main as run

    signal.signal(signal.SIGINT, before)
    try:
        return run()
    except BrokenPipeError:  # the reader closed the pipe, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
