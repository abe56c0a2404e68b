"""``python -m carrel`` is the ``carrel`` command."""

import sys

from carrel.cli import main

sys.exit(main())
