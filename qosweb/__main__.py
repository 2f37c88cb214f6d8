"""``python -m qosweb``: the command ``qosweb``."""

import sys

from qosweb.cli import main

sys.exit(main())
