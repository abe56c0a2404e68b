"""What targets open, and is closed when they are done: folders, connections, servers."""

import atexit
from contextlib import ExitStack

__all__ = ["cleanup"]

cleanup = ExitStack()
atexit.register(cleanup.close)
