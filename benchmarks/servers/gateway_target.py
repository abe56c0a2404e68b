"""Upstream server of the gateways in the comparison: a URL, or a script of this folder as a command."""

import os
import sys
from pathlib import Path


def command(script: str) -> list[str]:
    """The command of a server of this folder, in the environment that the comparison itself runs in."""
    return [os.environ.get("BENCHMARK_PYTHON", sys.executable), str(Path(__file__).parent / script), "stdio", "full"]
