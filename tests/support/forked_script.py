"""A Python file as the program of a process that is a fork, for ``support.forked_command``."""

from __future__ import annotations

import os
import runpy
import sys
import warnings


def main(path: str, shows_warnings: bool) -> int:
    """Run the file, and return the exit code. Warnings are shown as PYTHONWARNINGS=default shows them."""
    sys.path[0] = os.path.dirname(path)
    if shows_warnings:
        warnings.simplefilter("default")
    runpy.run_path(path, run_name="__main__")
    return 0
