"""The ``carrel`` command as a program for ``support.forking``."""

import sys

import support.carrel_modules  # noqa: F401
from carrel.cli import main

sys.argv[0] = "carrel"
sys.exit(main())
