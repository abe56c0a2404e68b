"""Fifty servers at a time: one hangs, one dies again and again, and one sends notifications without end."""

from __future__ import annotations

import json
import sys
from pathlib import Path

__all__ = ["SERVERS", "write_chaos"]

SERVERS, HOSTILE = 50, ("mute", "dying", "notes")
PROGRAM = Path(__file__).with_name("servers") / "hostile.py"


def write_chaos(file: Path, number: int = SERVERS) -> None:
    """Write a configuration of the servers, or of a number of them."""
    kinds = [*HOSTILE, *(["usual"] * (number - len(HOSTILE)))]
    servers = {
        f"{kind}-{at}": {"command": sys.executable, "args": [str(PROGRAM), kind]} for at, kind in enumerate(kinds)
    }
    file.write_text(json.dumps({"mcpServers": servers}))
