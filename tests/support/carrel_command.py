"""The ``carrel`` command as a program for ``support.forking``."""

import sys

import support.carrel_modules  # noqa: F401
from carrel.cli import main
from carrel.gateway import Gateway

assert Gateway.__init__.__kwdefaults__ is not None
# A gateway waits for its servers on a busy machine, too.
Gateway.__init__.__kwdefaults__["enter_timeout"] = 60.0
sys.argv[0] = "carrel"
sys.exit(main())
