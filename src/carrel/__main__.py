"""Entry point of ``python -m carrel``: the ``carrel`` command."""

import sys

from carrel.cli import main

sys.exit(main())
