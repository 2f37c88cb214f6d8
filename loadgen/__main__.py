"""``python -m loadgen``: runs the command ``loadgen``."""

import sys

from loadgen.cli import main

sys.exit(main())
