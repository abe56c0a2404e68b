"""Servers of the tests: programs that are run in a process of their own, some also imported.

No module here may have the name of a module of the standard library: a program's directory comes first on its path.
"""

from pathlib import Path

__all__ = ["SERVERS"]

SERVERS = Path(__file__).parent
