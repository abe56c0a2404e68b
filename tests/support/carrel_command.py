"""The ``carrel`` command as a program for ``support.forking``."""

import sys

import support.carrel_modules  # noqa: F401
from carrel.cli import main, target
from carrel.gateway import Gateway
from support import forking
from support.forked_command import fork_workers

if "--serve" in sys.orig_argv and sys.argv[1:2] == ["studio"]:  # this is a fork: the servers of the page are, too
    target.CARREL = (sys.executable, "-S", "-E", forking.__file__, sys.orig_argv[-1], __file__)
fork_workers()
assert Gateway.__init__.__kwdefaults__ is not None
# A gateway waits for its servers on a busy machine, too.
Gateway.__init__.__kwdefaults__["enter_timeout"] = 60.0
sys.argv[0] = "carrel"
sys.exit(main())
